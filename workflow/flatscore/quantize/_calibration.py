"""Texts to calibrate and to check with: conversations of the training tasks."""

from collections.abc import Callable, Iterator
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from flatscore import domains
from flatscore.embedded import calibration_conversations

CHECKED = 16  # conversations of the reload check, drawn with another seed than the calibration's


def texts(folder: str, n: int, *, seed: int) -> list[str]:
    """`n` conversations of the expert on telecom tasks outside the base split, as the model
    reads them."""
    render = _renderer(AutoTokenizer.from_pretrained(folder))
    return [render(messages, False) for messages in calibration_conversations(n, seed=seed)]


def encode(tokenizer: PreTrainedTokenizerBase, text: str, *, limit: int = 2048) -> list[int]:
    """Token ids of a rendered conversation, at most `limit`."""
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids[:limit]


def checked(folder: str, *, seed: int) -> Iterator[tuple[list[int], list[bool]]]:
    """Yield conversations drawn apart from the calibration's: token ids, and which are the agent's.

    What a user or a tool says no agent has to predict, so only the agent's own tokens are
    compared. They are found by rendering the conversation up to each of its turns.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    render = _renderer(tokenizer)
    for messages in calibration_conversations(CHECKED, seed=seed):
        ids = encode(tokenizer, render(messages, False))
        mine = [False] * len(ids)
        for turn, message in enumerate(messages):
            if message["role"] == "assistant" and turn > 0:
                start = len(encode(tokenizer, render(messages[:turn], True)))
                end = len(encode(tokenizer, render(messages[: turn + 1], False)))
                mine[start:end] = [True] * len(mine[start:end])
        yield ids, mine


def _renderer(tokenizer: PreTrainedTokenizerBase) -> Callable[[list[dict[str, Any]], bool], str]:
    tools: list[Any] = list(domains.agent_tools("telecom").values())
    system: dict[str, Any] = {"role": "system", "content": domains.policy("telecom")}

    def render(messages: list[dict[str, Any]], prompt: bool) -> str:
        text = tokenizer.apply_chat_template(
            [system, *messages], tools=tools, tokenize=False, add_generation_prompt=prompt
        )
        return str(text)

    return render

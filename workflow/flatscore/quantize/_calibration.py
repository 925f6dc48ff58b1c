"""Texts to calibrate and to check with: conversations of the training tasks."""

from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from flatscore import domains
from flatscore.embedded import calibration_conversations

CHECKED = 16  # conversations of the reload check, drawn with another seed than the calibration's


def texts(folder: str, n: int, *, seed: int) -> list[str]:
    """`n` conversations of the expert on telecom tasks outside the base split, as the model
    reads them."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tools = list(domains.agent_tools("telecom").values())
    system: dict[str, Any] = {"role": "system", "content": domains.policy("telecom")}
    return [
        tokenizer.apply_chat_template([system, *messages], tools=tools, tokenize=False)
        for messages in calibration_conversations(n, seed=seed)
    ]


def encode(tokenizer: PreTrainedTokenizerBase, text: str, *, limit: int = 2048) -> list[int]:
    """Token ids of a rendered conversation, at most `limit`."""
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids[:limit]

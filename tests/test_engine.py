"""The in-process engine: exact, and independent of who else is computed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from flatscore import domains
from flatscore.episodes import Request, Setup, TransformersEngine, run_arms
from flatscore.files import read_json

ROOT = Path(__file__).resolve().parents[1]
OPEN = ROOT / "resources/embedded/open"


def engine(**changes: Any) -> TransformersEngine:
    settings = {"slots": 6, "max_context": 1024, "max_new_tokens": 48, "temperature": 0.0}
    return TransformersEngine(OPEN, **settings | changes)


def conversation(phone: str, turns: int) -> list[list[dict[str, Any]]]:
    """A conversation up to each of its agent's turns."""
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "Hi! How can I help you today?"},
        {"role": "user", "content": f"Hello, I have no signal. My phone number is {phone}."},
    ]
    found = []
    for turn in range(turns):
        found.append(list(messages))
        messages.append({"role": "assistant", "content": "Please check your network status."})
        messages.append({"role": "user", "content": f"Cellular Connection: {'none ' * turn}"})
    return found


def talk(made: TransformersEngine, talks: list[list[list[dict[str, Any]]]]) -> list[list[str]]:
    tools = list(domains.agent_tools("telecom").values())

    def job(prompts: list[list[dict[str, Any]]]) -> Any:
        return lambda client: [
            client.reply(Request(messages, tools, seed=number)).raw
            for number, messages in enumerate(prompts)
        ]

    return made.run([job(prompts) for prompts in talks])


TALKS = [conversation(f"555-123-200{n}", 2 + n % 3) for n in range(9)]


def test_replies_are_those_of_transformers_own_generate() -> None:
    made = engine(reuse=False)
    model = AutoModelForCausalLM.from_pretrained(OPEN, dtype=torch.bfloat16).eval()
    tokenizer = AutoTokenizer.from_pretrained(OPEN)
    tools = list(domains.agent_tools("telecom").values())
    for prompts, said in zip(TALKS[:3], talk(made, TALKS[:3]), strict=True):
        for messages, reply in zip(prompts, said, strict=True):
            inputs = tokenizer.apply_chat_template(
                messages, tools=tools, add_generation_prompt=True, return_tensors="pt"
            )
            output = model.generate(**inputs, max_new_tokens=48, do_sample=False)
            ids = output[0, inputs["input_ids"].shape[1] :].tolist()
            assert tokenizer.decode([i for i in ids if i != tokenizer.eos_token_id]) == reply


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_reply_does_not_depend_on_its_neighbours(temperature: float) -> None:
    together = talk(engine(temperature=temperature, reuse=False), TALKS)
    alone = [talk(engine(slots=1, temperature=temperature, reuse=False), [t])[0] for t in TALKS[:4]]
    reversed_order = talk(engine(slots=3, temperature=temperature, reuse=False), TALKS[::-1])
    assert together[:4] == alone
    assert together == reversed_order[::-1]


def test_samples_follow_their_seed() -> None:
    made = engine(temperature=1.5, reuse=False)
    tools = list(domains.agent_tools("telecom").values())
    messages = TALKS[0][0]

    def job(seed: int) -> Any:
        return lambda client: client.reply(Request(messages, tools, seed)).raw

    said = made.run([job(seed) for seed in (1, 2, 3, 4, 5, 1)])
    assert said[0] == said[5]
    assert len(set(said)) > 1


def test_reuse_changes_the_time_alone() -> None:
    made = engine()
    first = talk(made, TALKS)
    generated = made.generated
    assert talk(made, TALKS) == first
    assert made.generated == generated


def test_a_reply_depends_on_its_prompt_and_not_on_how_it_came_about() -> None:
    long = [conversation(f"555-123-20{n:02}", 8) for n in range(12)]
    whole = talk(engine(reuse=False), long)
    made = engine()
    half = talk(made, [prompts[:4] for prompts in long])
    rest = talk(made, long)  # the first turns from memory, the others behind a new prefill
    alone = [talk(engine(slots=1, reuse=False), [prompts[-1:]])[0][0] for prompts in long[:4]]
    assert rest == whole
    assert half == [said[:4] for said in whole]
    assert alone == [said[-1] for said in whole[:4]]


def test_a_prompt_that_does_not_fit_is_unreadable_and_says_why() -> None:
    made = engine(max_context=100)
    tools = list(domains.agent_tools("telecom").values())
    [reply] = made.run([lambda client: client.reply(Request(TALKS[0][0], tools, 1))])
    assert reply.unreadable is not None
    assert "leaves no room in 100" in reply.unreadable


def test_a_reply_that_does_not_end_is_unreadable_and_kept() -> None:
    made = engine(max_new_tokens=3)
    tools = list(domains.agent_tools("telecom").values())
    [reply] = made.run([lambda client: client.reply(Request(TALKS[0][0], tools, 1))])
    assert reply.unreadable
    assert reply.completion_tokens == 3
    assert reply.raw


def test_an_episode_that_fails_stops_the_engine_and_leaves_no_thread() -> None:
    import threading

    def broken(client: Any) -> Any:
        client.reply(Request(TALKS[0][0], [], 1))
        raise RuntimeError("odd")

    before = threading.active_count()
    with pytest.raises(RuntimeError, match="odd"):
        engine().run([broken] * 4)
    assert threading.active_count() <= before + 1


@pytest.mark.slow
def test_a_live_budget_is_the_counted_one_to_the_last_word(tmp_path: Path) -> None:
    tasks = domains.load_tasks("telecom", "base", limit=24)
    user = {"kind": "scripted", "model": None, "base_url": None, "temperature": 0.7}
    repair = {"attempts": 3, "reject": "unknown-tool"}
    setup = Setup("open", "bf16", "telecom", "0", tasks, 1, 1, 200, user, repair, {})
    files = {budget: tmp_path / f"{budget}.json" for budget in (10, 2)}
    for budget, file in files.items():
        run_arms(
            setup,
            lambda: engine(slots=16, max_context=2048, reuse=False),
            arms=[("none", budget, file)],
            store=tmp_path / "store",
        )
    counted, live = (read_json(files[budget])["simulations"] for budget in (10, 2))
    cut = 0
    for large, small in zip(counted, live, strict=True):
        said = [[m.get("content"), m.get("tool_calls")] for m in small["messages"]]
        same = [[m.get("content"), m.get("tool_calls")] for m in large["messages"]]
        assert said == same[: len(said)]
        cut += len(said) < len(same)
        errors = sum(bool(m.get("error")) for m in large["messages"])
        expected = large["reward_info"]["reward"] == 1 and errors < 2
        assert (small["reward_info"]["reward"] == 1) == expected
    assert cut > 0

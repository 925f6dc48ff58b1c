"""Episodes by τ²-bench's own rules, with replies that the test writes down."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tau2.data_model.simulation import Results

from flatscore import domains
from flatscore.episodes import Setup, run_arms
from flatscore.episodes._parse import parse
from flatscore.episodes._run import run_episode
from flatscore.episodes._store import Store
from flatscore.errors import InputError
from tests._engines import FakeEngine, call, script

SCRIPTED = {"kind": "scripted", "model": None, "base_url": None, "temperature": 0.7}


def setup(**changes: Any) -> Setup:
    settings: dict[str, Any] = {
        "model": "m",
        "precision": "bf16",
        "domain": "telecom",
        "weights_digest": "0" * 64,
        "tasks": domains.load_tasks("telecom", "base", limit=2),
        "trials": 1,
        "seed": 1,
        "max_steps": 60,
        "user": SCRIPTED,
        "repair": {"attempts": 3, "reject": "unknown-tool"},
        "engine": {"engine": "fake", "temperature": 0.0},
    }
    return Setup(**settings | changes)


def play(engine: FakeEngine, *, budget: int = 10, repair: str = "none", **changes: Any) -> Any:
    common = setup(**changes)
    return run_episode(common, engine, repair, budget, common.tasks[0], 0)


def failed(simulation: dict[str, Any]) -> int:
    return sum(m.get("error", False) for m in simulation["messages"] if m["role"] == "tool")


def test_the_same_fake_call_ends_the_episode_at_the_budget() -> None:
    simulation = play(script(call("reboot_device")), budget=4)["simulation"]
    assert simulation["termination_reason"] == "too_many_errors"
    assert failed(simulation) == 4
    assert simulation["reward_info"]["reward"] == 0


def test_a_parallel_batch_may_overshoot_the_budget() -> None:
    three = call("reboot_device") + call("toggle_data") + call("no_such_tool")
    simulation = play(script(three), budget=2)["simulation"]
    assert failed(simulation) == 3
    assert simulation["termination_reason"] == "too_many_errors"


def test_words_beside_calls_are_kept_as_the_harness_keeps_them() -> None:
    simulation = play(script("One moment." + call("get_bill"), "Is solved."))["simulation"]
    both = next(m for m in simulation["messages"] if m.get("tool_calls"))
    assert both["content"] == "One moment."


def test_the_repair_rejects_three_times_and_lets_the_fourth_call_through() -> None:
    simulation = play(script(call("reboot_device")), budget=2, repair="reflexive")["simulation"]
    turns = [m for m in simulation["messages"] if m["role"] == "assistant" and m.get("tool_calls")]
    assert len(turns) == 2  # each turn counts one failed call, and the budget is two
    assert failed(simulation) == 2
    for turn in turns:
        held = turn["raw_data"]["flatscore"]["interceptions"]
        assert [h["attempt"] for h in held] == [1, 2, 3]
        assert "It is not on your list of tools" in held[0]["message"]


def test_a_healed_call_leaves_no_error_and_one_interception() -> None:
    phone = call("get_customer_by_phone", '{"phone_number": "555-123-2002"}')
    engine = script(call("reboot_device"), phone, "The problem is solved.")
    episode = play(engine, repair="reflexive")
    assert failed(episode["simulation"]) == 0
    assert episode["tally"]["fake_calls"] == 0
    assert "not on your list" in engine.requests[1].messages[-1]["content"]


def test_the_repair_of_failed_calls_never_touches_the_environment() -> None:
    unknown = call("get_customer_by_id", '{"customer_id": "C9999"}')
    engine = script(unknown, "The problem is solved.")
    assert failed(play(engine, repair="reflexive")["simulation"]) == 1
    common = setup(repair={"attempts": 3, "reject": "failed-call"})
    engine = script(unknown, "The problem is solved.")
    simulation = run_episode(common, engine, "reflexive", 10, common.tasks[0], 0)["simulation"]
    assert failed(simulation) == 0


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ('<tool_call>{"name": "x", "arguments": {', "is not JSON"),
        ('<tool_call>{}""</tool_call>', "is not JSON"),
        ('<tool_call>{"name": "x"} {"name": "y"}</tool_call>', "is not JSON"),
        ('<tool_call>{"name": "x"} thanks</tool_call>', "is not JSON"),
        ("<tool_call></tool_call>", "is not JSON"),
        ("<tool_call>null</tool_call>", "null, not an object"),
        ("<tool_call>[]</tool_call>", "a list, not an object"),
        ('<tool_call>"x"</tool_call>', "a string, not an object"),
        ("<tool_call>3</tool_call>", "a number, not an object"),
        ('<tool_call>{"name": "x", "arguments": null}</tool_call>', "null, not an object"),
        ('<tool_call>{"name": "x", "arguments": []}</tool_call>', "a list, not an object"),
        ('<tool_call>{"arguments": {}}</tool_call>', "no name"),
        ('<tool_call>{"name": "x", "arguments": {"a": NaN}}</tool_call>', "is not JSON"),
        ('<tool_call>{"name": "\\ud800"}</tool_call>', "is not JSON"),
        (f"<tool_call>{'[' * 100_000}</tool_call>", "is not JSON"),
        (f"<tool_call>{'9' * 5_000}</tool_call>", "is not JSON"),
        ("", "is empty"),
        ("   ", "is empty"),
        ("<think>hm</think>", "only thinking"),
        ('<think>hm <tool_call>{"name": "x"}</tool_call>', "only thinking"),
        ("</tool_call> hello", "markup"),
        ("hello <|user|>", "markup"),
    ],
)
def test_unreadable_replies_have_a_reason(raw: str, reason: str) -> None:
    content, calls, unreadable = parse(raw)
    assert unreadable is not None
    assert reason in unreadable
    assert (content, calls) == (None, ())


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ('<think>x</think><tool_call>{"name": "a"}</tool_call>', ["a"]),
        ('<tool_call>{"name": "a"}</tool_call><think>x</think>', ["a"]),
        ('<tool_call>{"name": "", "arguments": {}}</tool_call>', [""]),
        ('<tool_call>{"name": "functions.a"}</tool_call>', ["functions.a"]),
        ('<tool_call>{"name": "a", "arguments": "{}"}</tool_call>', ["a"]),
        ('<tool_call>{"name": "a"}<tool_call>{"name": "b"}</tool_call>', ["a", "b"]),
        (f'<tool_call>{{"name": "{"x" * 300}"}}</tool_call>', ["x" * 300]),
    ],
)
def test_readable_calls_keep_their_names(raw: str, names: list[str]) -> None:
    _, calls, unreadable = parse(raw)
    assert unreadable is None
    assert [c.name for c in calls] == names


def test_an_unreadable_reply_ends_the_episode_and_is_kept() -> None:
    simulation = play(script("<tool_call>{oops</tool_call>"))["simulation"]
    assert simulation["termination_reason"] == "agent_error"
    assert simulation["reward_info"]["reward"] == 0
    last = simulation["messages"][-1]
    assert last["raw_data"]["flatscore"]["raw"] == "<tool_call>{oops</tool_call>"
    assert "is not JSON" in last["raw_data"]["flatscore"]["unreadable"]


def test_a_failure_of_the_engine_is_not_the_models() -> None:
    calls = []

    def broken(_: Any) -> str:
        calls.append(1)
        raise ConnectionError("the server is gone")

    simulation = play(FakeEngine(broken))["simulation"]
    assert simulation["termination_reason"] == "infrastructure_error"
    assert simulation["info"]["error"] == "ConnectionError: the server is gone"


def gold(task: Any) -> FakeEngine:
    """An agent that plays the task's gold actions, and then says that the issue is solved."""
    actions = [a for a in task.evaluation_criteria.actions if a.requestor == "assistant"]
    said = [call(a.name, json.dumps(a.arguments)) for a in actions]
    told = " ".join(task.evaluation_criteria.communicate_info or [])
    return script(*said, f"Your issue is solved. {told}")


def test_retail_runs_through_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from tau2.data_model.message import UserMessage
    from tau2.user.base import STOP, BaseUser, UserState

    from flatscore.episodes import _run

    class Patient(BaseUser):
        """A user who says hello, and stops after the agent's first words."""

        def get_init_state(self, message_history: Any = None) -> UserState:
            return UserState(system_messages=[], messages=[])

        def generate_next_message(self, message: Any, state: UserState) -> Any:
            state.messages.append(message)
            said = "Hello" if len(state.messages) == 1 else STOP
            return UserMessage(role="user", content=said), state

        @classmethod
        def is_stop(cls, message: UserMessage) -> bool:
            return message.content == STOP

    monkeypatch.setattr(_run, "make_user", lambda *_: Patient())
    tasks = domains.load_tasks("retail", "base", limit=12)
    rewards = []
    for task in tasks:
        common = setup(domain="retail", tasks=[task], max_steps=200)
        episode = run_episode(common, gold(task), "none", 10, task, 0)
        rewards.append(episode["simulation"]["reward_info"]["reward"])
    assert rewards == [1.0] * len(tasks)


def test_the_scripted_user_refuses_retail() -> None:
    with pytest.raises(InputError, match="the scripted user cannot play retail"):
        from flatscore.episodes._users import make_user

        task = domains.load_tasks("retail", "base", limit=1)[0]
        make_user(SCRIPTED, domains.environment("retail"), task, 1)


def test_the_llm_user_is_the_one_of_the_benchmark() -> None:
    from tau2.user.user_simulator import UserSimulator

    from flatscore.episodes._users import make_user

    task = domains.load_tasks("telecom", "base", limit=1)[0]
    settings = {"kind": "llm", "model": "openai/x", "base_url": "http://127.0.0.1:1/v1"}
    user = make_user(settings | {"temperature": 0.7}, domains.environment("telecom"), task, 3)
    assert isinstance(user, UserSimulator)
    assert len(user.tools) == 30
    assert user.llm_args == {"temperature": 0.7, "seed": 3, "base_url": "http://127.0.0.1:1/v1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("telekom", "base"), "the nearest is telecom"),
        (("telecom", "bsae"), "the nearest is base"),
    ],
)
def test_unknown_names_are_refused(arguments: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        domains.load_tasks(*arguments)


def test_more_tasks_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="115 tasks are asked for, telecom base has 114"):
        domains.load_tasks("telecom", "base", limit=115)


def arms(folder: Path, *pairs: tuple[str, int]) -> list[tuple[str, int, Path]]:
    return [(r, b, folder / r / f"budget-{b}.json") for r, b in pairs]


def test_an_arm_is_a_results_file_of_the_benchmark(tmp_path: Path) -> None:
    wanted = arms(tmp_path, ("none", 3))
    run_arms(
        setup(),
        lambda: script(call("reboot_device")),
        arms=wanted,
        store=tmp_path / "store",
    )
    results = Results.load(wanted[0][2])
    assert [s.termination_reason.value for s in results.simulations] == ["too_many_errors"] * 2
    assert results.info.max_errors == 3
    assert [task.id for task in results.tasks] == [task.id for task in setup().tasks]


def test_only_what_is_new_is_run(tmp_path: Path) -> None:
    def run(**changes: Any) -> dict[str, Any]:
        engine = script(call("reboot_device"))
        wanted = arms(tmp_path, ("none", 3))
        return run_arms(setup(**changes), lambda: engine, arms=wanted, store=tmp_path / "store")[
            "arms"
        ][0]

    assert run()["from_store"] == 0
    assert run()["from_store"] == 2
    assert run(trials=2)["from_store"] == 2
    assert run(seed=2)["from_store"] == 0
    assert run(weights_digest="1" * 64)["from_store"] == 0
    torn = next((tmp_path / "store").rglob("*.gz"))
    torn.write_bytes(torn.read_bytes()[:40])
    before = run(trials=2), run(seed=2), run(weights_digest="1" * 64)
    assert sorted(found["from_store"] - found["episodes"] for found in before) == [-1, 0, 0]


def test_a_killed_job_keeps_its_finished_episodes(tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.test_episodes import arms, setup, call
from tests._engines import FakeEngine
from flatscore import domains
from flatscore.episodes import run_arms
def slowly(_):
    time.sleep(0.05)
    return call("reboot_device")
tasks = domains.load_tasks("telecom", "base", limit=40)
folder = Path(sys.argv[1])
run_arms(setup(tasks=tasks), lambda: FakeEngine(slowly), arms=arms(folder, ("none", 2)),
         store=folder / "store")
"""
    root = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root / "workflow")}
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path, root], env=environment, stderr=subprocess.DEVNULL
    )
    store = tmp_path / "store"
    deadline = time.monotonic() + 60
    while len(list(store.rglob("*.gz"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(list(store.rglob("*.gz")))
    assert kept >= 3
    assert not list(tmp_path.rglob("budget-2.json"))
    tasks = domains.load_tasks("telecom", "base", limit=40)
    wanted = arms(tmp_path, ("none", 2))
    again = run_arms(
        setup(tasks=tasks), lambda: script(call("reboot_device")), arms=wanted, store=store
    )
    assert again["arms"][0]["from_store"] >= kept - 1
    assert len(Results.load(wanted[0][2]).simulations) == 40


def test_a_store_entry_under_another_key_is_not_taken(tmp_path: Path) -> None:
    store = Store(tmp_path)
    left, right = Store.key({"a": 1}), Store.key({"a": 2})
    store.put(left, {"simulation": {}})
    assert store.get(left) == {"key": left, "simulation": {}}
    assert store.get(right) is None
    (tmp_path / right[:2]).mkdir(exist_ok=True)
    (tmp_path / left[:2] / f"{left[2:]}.json.gz").rename(
        tmp_path / right[:2] / f"{right[2:]}.json.gz"
    )
    assert store.get(right) is None


@pytest.mark.parametrize("domain", domains.DOMAINS)
def test_environments_are_those_of_the_benchmarks_own_constructor(domain: str) -> None:
    own = domains.CONSTRUCTORS[domain]()
    for _ in range(2):
        made = domains.environment(domain)
        assert made.get_db_hash() == own.get_db_hash()
        assert made.get_user_db_hash() == own.get_user_db_hash()
        assert made.get_policy() == own.get_policy()
        if domain == "telecom":
            made.tools.db.lines[0].data_used_gb += 1  # does not reach the next one

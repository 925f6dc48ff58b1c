"""Result files that are odd: orphans, repeated ids, lost replies, folders, holes."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flatscore import calls
from flatscore.errors import InputError
from tests._synthetic import (
    OWN,
    answer,
    changed,
    conversation,
    episode,
    results,
    say,
    use,
    write,
)
from tests.test_calls import GONE, frames, read


def odd(recording: calls.Recording) -> list[str]:
    (found,) = recording.anomalies.values()
    return found


def test_an_unanswered_call_is_reported_and_the_rest_counted(tmp_path: Path) -> None:
    messages = [use(("1", "reboot_device")), answer("1", GONE), use(("2", OWN)), say("Wait.")]
    recording = read(tmp_path, episode(messages=messages), episode("t1", conversation(["x"], 2)))
    assert recording.anomalies == {"t0-0": ["1 calls without an answer"]}
    episodes, made = calls.tabulate(recording, model="m", precision="p")
    assert episodes["agent_calls"].tolist() == [2, 2]
    assert episodes["errors"].tolist() == [1, 1]
    assert made["error"].tolist() == [True, False, True, False]
    # Whether the agent recovered is not known from a call that nobody answered.
    assert pd.isna(made["recovered"].iloc[0]) and made["recovered"].iloc[2]


def test_an_answer_without_a_call_is_reported_and_burns_budget(tmp_path: Path) -> None:
    messages = [answer("9", GONE), use(("1", OWN)), answer("1")]
    recording = read(tmp_path, episode(messages=messages))
    assert odd(recording) == ["1 answers without a call"]
    episodes, made = calls.tabulate(recording, model="m", precision="p")
    assert len(made) == 1 and not made.loc[0, "error"]
    assert episodes.loc[0, "errors"] == 1  # as τ²-bench counts


def test_calls_that_share_an_id_get_their_own_answers(tmp_path: Path) -> None:
    for key in ("1", "", None):
        messages: list[dict[str, Any]] = [
            use((key, "reboot_device"), (key, OWN)),  # type: ignore[arg-type]
            answer(key, GONE),  # type: ignore[arg-type]
            answer(key),  # type: ignore[arg-type]
        ]
        recording = read(tmp_path, episode(messages=messages))
        assert odd(recording) == ["1 ids of more than one call"]
        made = calls.tabulate(recording, model="m", precision="p")[1]
        assert made["error"].tolist() == [True, False]


def test_one_answer_to_two_calls_of_an_id_counts_once(tmp_path: Path) -> None:
    messages = [use(("1", "reboot_device"), ("1", "reboot_device")), answer("1", GONE)]
    recording = read(tmp_path, episode(messages=messages))
    assert odd(recording) == ["1 calls without an answer", "1 ids of more than one call"]
    assert calls.tabulate(recording, model="m", precision="p")[0].loc[0, "errors"] == 1


def lost(reason: str | None, raw: str = "", held: Any = ()) -> dict[str, Any]:
    return {"flatscore": {"raw": raw, "unreadable": reason, "interceptions": list(held)}}


def test_an_unreadable_reply_is_a_row_and_a_failure(tmp_path: Path) -> None:
    last = say("{}{}", raw_data=lost("arguments are not JSON", '{"order_id": {}""'))
    messages = [*conversation(["x_tool"], 2), last]
    row, made = frames(tmp_path, *messages, reward=0.0, termination="agent_error")
    assert made["channel"].tolist() == ["tool_name", None, "harness_lost"]
    final = made.iloc[-1]
    assert pd.isna(final["name"]) and final["arguments"] == '{"order_id": {}""'
    assert final["message"] == "arguments are not JSON" and not final["error"]
    assert (row["status"], row["reason"]) == ("harness_lost", "arguments are not JSON")
    assert (row["reward"], row["errors"], row["agent_calls"]) == (0.0, 1, 2)


@pytest.mark.parametrize("content", [None, ""])
def test_a_reply_with_neither_text_nor_call_is_lost(tmp_path: Path, content: str | None) -> None:
    row, made = frames(tmp_path, say(content), reward=0.0, termination="agent_error")
    assert made["channel"].tolist() == ["harness_lost"]
    assert (row["status"], row["reason"]) == ("harness_lost", "neither text nor call")
    # Where the harness went on and graded, the reply is told and the reward stands.
    row, made = frames(tmp_path, say(content), say("Done."), reward=1.0)
    assert made["channel"].tolist() == ["harness_lost"]
    assert (row["status"], row["success"]) == ("graded", True)


def test_interceptions_are_apart_from_errors(tmp_path: Path) -> None:
    held = [
        {"name": "a_tool", "arguments": {}, "content": "", "message": GONE, "attempt": 1},
        {"name": "reboot_device", "arguments": {}, "content": "", "message": GONE, "attempt": 2},
    ]
    third = {**use(("1", OWN)), "raw_data": lost(None, held=held)}
    row, made = frames(tmp_path, third, answer("1"), use(("2", "b_tool")), answer("2", GONE))
    assert made["intercepted"].tolist() == [True, True, False, False]
    assert made["attempt"].tolist() == [1, 2, 0, 0]
    assert made["channel"].tolist() == ["tool_name", "tool_name", None, "tool_name"]
    assert made["sub_kind"].tolist() == ["invented", "user_side", None, "invented"]
    assert made["error"].tolist() == [False, False, False, True]
    assert (row["errors"], row["interceptions"], row["agent_calls"]) == (1, 2, 2)


def test_other_agents_raw_data_is_left_alone(tmp_path: Path) -> None:
    for raw in ({"finish_reason": "stop"}, {"flatscore": None}, [1], "text", None):
        row, made = frames(tmp_path, say("Hello.", raw_data=raw))
        assert row["status"] == "graded" and made.empty


def test_a_text_that_no_file_can_hold_is_escaped(tmp_path: Path) -> None:
    _, made = frames(tmp_path, use(("1", "tool\ud800")), answer("1", "Error: \ud800"))
    assert made.loc[0, "name"] == "tool\\ud800"
    made.to_parquet(tmp_path / "calls.parquet")


def test_the_folder_form_reads_as_the_file(tmp_path: Path) -> None:
    episodes = [episode("t0", conversation(["x"], 2)), episode("t1", conversation([], 1))]
    whole = results(episodes)
    file = write(tmp_path / "run.json", whole)
    for empty in ({}, {"simulations": []}, {"simulations": None}):
        bare = {"info": whole["info"], "tasks": whole["tasks"], **empty}
        write(tmp_path / "v1" / "results.json", bare)
        for each in episodes:
            write(tmp_path / "v1" / "simulations" / f"{each['id']}.json", each)
        for path in (tmp_path / "v1", tmp_path / "v1" / "results.json"):
            recording = calls.read_results(path)
            assert len(recording.files) == 3
            both = [
                calls.tabulate(each, model="m", precision="p")
                for each in (recording, calls.read_results(file))
            ]
            for left, right in zip(*both, strict=True):
                drop = {"columns": "file", "errors": "ignore"}
                pd.testing.assert_frame_equal(left.drop(**drop), right.drop(**drop))
    (tmp_path / "v1" / "simulations" / "t1-0.json").write_text('{"id": ', encoding="utf-8")
    with pytest.raises(InputError, match=r"t1-0.json: is not JSON, or was cut off"):
        calls.read_results(tmp_path / "v1")


def test_infrastructure_errors_have_no_reward(tmp_path: Path) -> None:
    died = {"reward": None, "termination": "infrastructure_error"}
    row, made = frames(tmp_path, **died, info={"error": "timeout"})
    assert made.empty and pd.isna(row["reward"]) and pd.isna(row["success"])
    assert (row["status"], row["reason"], row["steps"]) == ("infrastructure", "timeout", 0)
    recording = read(tmp_path, {**episode(**died), "messages": None})
    episodes, _ = calls.tabulate(recording, model="m", precision="p")
    assert episodes.loc[0, "reason"] == "no reason recorded"
    row, _ = frames(tmp_path, say("Bye."), reward=None)
    assert (row["status"], row["reason"]) == ("infrastructure", "no reward recorded")


@pytest.mark.parametrize("termination", ["max_steps", "agent_error", "user_error", "judge_stop"])
def test_other_ends_are_failures(tmp_path: Path, termination: str) -> None:
    row, _ = frames(tmp_path, say("Hm."), reward=None, termination=termination)
    assert (row["status"], row["reason"], row["reward"]) == ("ungraded", termination, 0.0)


def test_a_run_of_one_trial_may_leave_the_trial_out(tmp_path: Path) -> None:
    first = episode()
    second = copy.deepcopy(first)
    del first["trial"]
    recording = read(tmp_path, first)
    assert recording.slots == recording.planned == {("t0", 0)}
    with pytest.raises(InputError, match="holds episodes twice: t0 trial 0"):
        read(tmp_path, first, second)


def test_what_may_differ_is_said_by_the_caller(tmp_path: Path) -> None:
    run = results([episode(f"t{index}") for index in range(3)])
    full = calls.read_results(write(tmp_path / "full.json", run))
    warm = changed(run, "info/agent_info/llm_args", {"temperature": 1.0, "precision": "q"})
    other = calls.read_results(write(tmp_path / "low.json", warm))
    with pytest.raises(InputError, match=r"in agent arguments: .*precision alone\.$"):
        calls.check_comparable(full, other)
    calls.check_comparable(full, other, allow=("agent arguments",))
    small = calls.read_results(write(tmp_path / "small.json", changed(run, "info/max_errors", 2)))
    calls.check_comparable(full, small, ignore_budget=True)
    less = calls.read_results(
        write(tmp_path / "less.json", changed(run, "simulations", run["simulations"][:1]))
    )
    with pytest.raises(InputError, match=r"full.json alone has t1 trial 0, t2 trial 0"):
        calls.check_comparable(full, less)
    with pytest.raises(InputError, match=r"less.json: lacks 2 of 3 episodes: t1 trial 0, t2"):
        calls.check_comparable(less, less)
    calls.check_comparable(full, less, allow=("episodes",))
    nulls = changed(run, "tasks/0", {"id": "t0", "ticket": None})
    calls.check_comparable(full, calls.read_results(write(tmp_path / "nulls.json", nulls)))


def test_an_unknown_domain_is_refused(tmp_path: Path) -> None:
    airline = read(tmp_path, episode(), environment_info={"domain_name": "airline", "policy": ""})
    with pytest.raises(InputError, match=r"domain is 'airline'\. Give runs of retail or telecom"):
        calls.tabulate(airline, model="m", precision="p")


def test_the_budget_and_the_repair_are_those_recorded(tmp_path: Path) -> None:
    agent = {"implementation": "flatscore", "llm": "m", "llm_args": {"repair": "reflexive"}}
    recording = read(tmp_path, episode(), agent_info=agent, max_errors=4)
    episodes, _ = calls.tabulate(recording, model="m", precision="p")
    assert episodes[["repair", "budget"]].values.tolist() == [["reflexive", 4]]
    episodes, _ = calls.tabulate(recording, model="m", precision="p", repair="r", budget=2)
    assert episodes[["repair", "budget"]].values.tolist() == [["r", 2]]


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    keys: Any = range(len(value)) if isinstance(value, list) else value
    for key in keys if isinstance(value, list | dict) else ():
        yield from places(value[key], (*way, key))


def test_any_one_odd_value_is_read_or_refused(tmp_path: Path) -> None:
    """Each value of a file in turn replaced by each of another type, and left out."""
    held = [{"name": "n", "arguments": {}, "content": "", "message": GONE, "attempt": 1}]
    run = results(
        [
            episode("t0", [*conversation(["x"], 1), say("Hm.", raw_data=lost(None, held=held))]),
            episode("t1", termination="infrastructure_error", info={"error": "timeout"}),
        ]
    )
    full = calls.read_results(write(tmp_path / "full.json", run))
    odd_values: list[Any] = [None, [], "x", 1.5, {"a": 1}, 2**70]
    refused = 0
    for way in list(places(run))[1:]:
        for value in [*odd_values, KeyError]:
            made = copy.deepcopy(run)
            spot: Any = made
            for key in way[:-1]:
                spot = spot[key]
            if value is KeyError:
                del spot[way[-1]]
            else:
                spot[way[-1]] = value
            try:
                recording = calls.read_results(write(tmp_path / "low.json", made))
                calls.tabulate(recording, model="m", precision="p")
                calls.check_comparable(full, recording)
            except InputError:
                refused += 1
    assert refused > 150

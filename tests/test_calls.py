"""Reading result files and putting calls in channels: recorded truth, and what goes wrong."""

import ast
import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flatscore import calls, domains
from flatscore.calls._channels import channel, tool_name_kind
from tests._synthetic import (
    ARGUMENTS,
    OWN,
    answer,
    conversation,
    episode,
    results,
    use,
    write,
)

GONE = "Error: Tool 'reboot_device' not found."


def read(folder: Path, *episodes: dict[str, Any], **info: Any) -> calls.Recording:
    return calls.read_results(write(folder / "run.json", results(episodes, **info)))


def frames(folder: Path, *messages: Any, **more: Any) -> tuple[pd.Series, pd.DataFrame]:
    """Return the row of an episode of these messages, and those of its calls."""
    recording = read(folder, episode(messages=messages, **more))
    episodes, made = calls.tabulate(recording, model="m", precision="p")
    assert list(episodes) == list(calls.EPISODES) and list(made) == list(calls.CALLS)
    return episodes.iloc[0], made


@pytest.mark.parametrize(
    "domain, score, channels",
    [("retail", 0.85, {"entity": 5, "refusal": 7}), ("telecom", 0.45, {})],
)
def test_recorded_truth(shared: Path, domain: str, score: float, channels: dict[str, int]) -> None:
    recording = calls.read_results(shared / "trajectories" / f"gpt-4.1_{domain}_40.json")
    assert recording.anomalies == {}
    assert recording.slots == recording.planned
    episodes, made = calls.tabulate(recording, model="gpt-4.1", precision="bf16")
    assert len(episodes) == 40 and set(episodes["status"]) == {"graded"}
    assert episodes["success"].mean() == pytest.approx(score)
    agent = made[made["requestor"] == "assistant"]
    assert agent["channel"].value_counts().to_dict() == channels
    assert episodes["agent_errors"].sum() == sum(channels.values())
    assert episodes["agent_calls"].sum() == len(agent)
    raw = [m for s in recording.simulations for m in s["messages"]]
    assert len(made) == sum(len(m.get("tool_calls") or []) for m in raw)
    assert made["error"].sum() == sum(bool(m.get("error")) for m in raw)


@pytest.mark.slow
@pytest.mark.parametrize("domain", domains.DOMAINS)
def test_regrading_gives_the_recorded_rewards(shared: Path, domain: str) -> None:
    file = shared / "trajectories" / f"gpt-4.1_{domain}_40.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    tasks = {task["id"]: domains.Task.model_validate(task) for task in content["tasks"]}
    for each in content["simulations"]:
        simulation = domains.SimulationRun.model_validate(each)
        found = domains.evaluate(simulation, tasks[simulation.task_id], domain)
        assert found.reward == each["reward_info"]["reward"], simulation.task_id


@pytest.mark.parametrize(
    "name, retail, telecom",
    [
        ("get_user_details", None, "other_domain"),
        ("functions.get_user_details", "near_miss", "other_domain"),
        ("get_user_details ", "near_miss", "other_domain"),
        ("Get_User_Details", "near_miss", "other_domain"),
        ("get-user-details", "near_miss", "other_domain"),
        ("get_user_detail", "near_miss", "invented"),
        ("gеt_usеr_dеtаils", "near_miss", "other_domain"),  # Cyrillic vowels
        ("ｇｅｔ_user_details", "near_miss", "other_domain"),  # full width
        ("transfer_to_human_agents", None, None),
        ("transfer_to_human_agent", "near_miss", "near_miss"),
        ("", "empty", "empty"),
        (" \t", "empty", "empty"),
        ("__init__", "invented", "invented"),
        ("functions.", "invented", "invented"),
        ("x" * 300, "invented", "invented"),
        ("reboot_device", "other_domain", "user_side"),
        ("functions.reboot_device", "other_domain", "user_side"),
        ("use_tool", "invented", "invented"),
        ("工具", "invented", "invented"),
    ],
)
def test_sub_kinds_of_tool_names(name: str, retail: str | None, telecom: str | None) -> None:
    assert tool_name_kind("retail", name) == retail
    assert tool_name_kind("telecom", name) == telecom


def raised(domain: str) -> Iterator[str]:
    """Every text of a ValueError in the tools' source, with something in place of each value."""
    source = inspect.getsource(importlib.import_module(f"tau2.domains.{domain}.tools"))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            text = node.exc.args[0]
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "X1" for p in parts)


WELL_FORMED = {
    "retail": ("get_order_details", {"order_id": "#W1"}),
    "telecom": ("get_details_by_id", {"id": "X1"}),
}


@pytest.mark.parametrize("domain", domains.DOMAINS)
def test_every_text_of_the_tools_has_its_channel(domain: str) -> None:
    texts = set(raised(domain))
    assert len(texts) > 15
    name, arguments = WELL_FORMED[domain]
    found = {text: channel(domain, name, arguments, f"Error: {text}")[0] for text in texts}
    assert set(found.values()) == {"entity", "refusal", "arguments"}
    missing = {text for text in texts if "not found" in text and "available" not in text}
    assert {text for text, kind in found.items() if kind == "entity"} == missing
    assert {text for text, kind in found.items() if kind == "arguments"} <= {
        "Invalid reason",
        "Invalid characters in expression",
        "Unknown ID format or type: X1",
    }


@pytest.mark.parametrize(
    "name, arguments, message, expected",
    [
        ("get_order_details", {"order_id": "#W1"}, "Order not found", "entity"),
        ("get_orders_of", {"order_id": "#W1"}, "Order not found", "tool_name"),
        ("get_order_details", {"order_id": "#W1"}, "New item 2 not found or available", "refusal"),
        ("get_order_details", {"order_id": "Tool 'x' not found"}, "Order not found", "entity"),
        ("get_order_details", {}, "missing 1 required positional argument", "arguments"),
        ("get_order_details", {"order_id": "#W1", "x": 1}, "unexpected keyword", "arguments"),
        ("get_order_details", {"order_id": 7}, "Order not found", "arguments"),
        ("get_order_details", None, "argument after ** must be a mapping", "arguments"),
        ("get_order_details", [], "argument after ** must be a mapping", "arguments"),
        ("get_order_details", '{"order_id": ', "not a mapping", "arguments"),
        ("calculate", {"expression": "1 / 0"}, "division by zero", "runtime"),
        ("get_order_details", {"order_id": "#W1"}, "", "runtime"),
    ],
)
def test_channels(name: str, arguments: Any, message: str, expected: str) -> None:
    assert channel("retail", name, arguments, f"Error: {message}")[0] == expected
    assert channel("retail", name, arguments, message, requestor="user") == ("user", None)


@pytest.mark.parametrize("domain", domains.DOMAINS)
def test_live_errors_have_their_channel(domain: str) -> None:
    """What τ²-bench itself answers now, for a fake tool, a missing record and odd arguments."""
    from tau2.data_model.message import ToolCall

    name, arguments = WELL_FORMED[domain]
    if domain == "telecom":
        name, arguments = "get_customer_by_id", {"customer_id": "C0"}
    made = domains.environment(domain)
    for called, given, expected in (
        ("reboot_device", {}, "tool_name"),
        (name, arguments, "entity"),
        (name, {}, "arguments"),
        (name, {**arguments, "more": 1}, "arguments"),
    ):
        reply = made.get_response(ToolCall(id="1", name=called, arguments=given))
        assert reply.error
        assert channel(domain, called, given, reply.content)[0] == expected


def test_entity_and_tool_name_are_told_apart_by_the_list(tmp_path: Path) -> None:
    row, made = frames(
        tmp_path,
        use(("1", OWN)),
        answer("1", "Error: Customer with phone number 5 not found"),
        use(("2", "reboot_device")),
        answer("2", GONE),
    )
    assert made["channel"].tolist() == ["entity", "tool_name"]
    assert made["sub_kind"].tolist() == [None, "user_side"]
    assert (row["errors"], row["agent_errors"], row["agent_calls"]) == (2, 2, 2)


def test_a_repeated_fake_call_counts_each_time(tmp_path: Path) -> None:
    messages = conversation(["reboot_device"] * 10, 10)
    row, made = frames(tmp_path, *messages, reward=0.0, termination="too_many_errors")
    assert (row["errors"], row["status"], row["reason"]) == (10, "ungraded", "too_many_errors")
    assert not row["success"]
    assert made["recovered"].tolist()[:9] == [False] * 9 and pd.isna(made["recovered"].iloc[9])


def test_a_parallel_batch_overshoots_the_budget(tmp_path: Path) -> None:
    batch = use(*((key, "reboot_device") for key in "123"))
    several = {"role": "tool", "tool_messages": [answer(key, GONE) for key in "123"]}
    for answers in ([answer(key, GONE) for key in "321"], [several]):
        more = {"termination": "too_many_errors", "reward": 0.0}
        recording = read(tmp_path, episode(messages=[batch, *answers], **more), max_errors=2)
        episodes, made = calls.tabulate(recording, model="m", precision="p")
        assert (episodes.loc[0, "errors"], episodes.loc[0, "budget"]) == (3, 2)
        assert made["turn"].tolist() == [0, 0, 0] and made["call"].tolist() == [0, 1, 2]
        assert recording.anomalies == {}


def test_calls_beside_text_are_recorded(tmp_path: Path) -> None:
    both = {**use(("1", OWN), ("2", "reboot_device")), "content": "Let me see."}
    _, made = frames(tmp_path, both, answer("1"), answer("2", GONE))
    assert made["error"].tolist() == [False, True]
    assert json.loads(made.loc[0, "arguments"]) == ARGUMENTS
    assert made["message"].tolist() == [None, GONE]


def test_a_failure_of_the_user_is_not_the_agents(tmp_path: Path) -> None:
    row, made = frames(
        tmp_path,
        use(("1", "reboot_device"), role="user"),
        answer("1", "Error: no power", "user"),
        use(("2", OWN)),
        answer("2"),
    )
    assert made["channel"].tolist() == ["user", None]
    assert (row["errors"], row["user_errors"], row["agent_errors"]) == (1, 1, 0)
    assert row["agent_calls"] == 1


def test_recovery_and_position(tmp_path: Path) -> None:
    row, made = frames(tmp_path, *conversation(["a_tool", "b_tool"], 3))
    assert made["recovered"].tolist()[:2] == [False, True] and pd.isna(made["recovered"].iloc[2])
    assert made["position"].tolist() == pytest.approx([1 / 7, 3 / 7, 5 / 7])
    assert (row["steps"], row["agent_calls"]) == (7, 3)

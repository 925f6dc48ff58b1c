"""Result files of τ²-bench that nobody recorded, for the tests of the reader and the audit."""

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flatscore import domains

OWN = "get_customer_by_phone"
ARGUMENTS = {"phone_number": "555-123-2002"}
INFO: dict[str, Any] = {
    "environment_info": {"domain_name": "telecom", "policy": "Help.", "tool_defs": None},
    "agent_info": {"implementation": "llm_agent", "llm": "m", "llm_args": {"temperature": 0.0}},
    "user_info": {"implementation": "user_simulator", "llm": "u", "llm_args": {"temperature": 0.0}},
    "max_errors": 10,
    "num_trials": 1,
    "max_steps": 200,
    "seed": 1,
}


def say(text: str | None, role: str = "assistant", **more: Any) -> dict[str, Any]:
    """Return a message without calls."""
    return {"role": role, "content": text, **more}


def use(*made: tuple[str, str], role: str = "assistant", arguments: Any = None) -> dict[str, Any]:
    """Return a message with calls, each (id, name)."""
    given = ARGUMENTS if arguments is None else arguments
    made_calls = [{"id": key, "name": name, "arguments": given} for key, name in made]
    return {"role": role, "content": None, "tool_calls": made_calls}


def answer(key: str, text: str = "{}", requestor: str = "assistant") -> dict[str, Any]:
    """Return the message of a tool; a text that begins with Error is one."""
    error = text.startswith("Error")
    return {"role": "tool", "id": key, "requestor": requestor, "content": text, "error": error}


def conversation(fakes: Sequence[str], calls_made: int) -> list[dict[str, Any]]:
    """Return the messages of an episode: calls to fake tools first, then calls that succeed."""
    messages = [say("My phone is offline.", "user")]
    for index in range(calls_made):
        name = fakes[index] if index < len(fakes) else OWN
        text = f"Error: Tool '{name}' not found." if index < len(fakes) else "{}"
        messages += [use((str(index), name)), answer(str(index), text)]
    return messages


def episode(
    task: str = "t0",
    messages: Sequence[dict[str, Any]] = (),
    *,
    trial: int = 0,
    reward: float | None = 1.0,
    termination: str = "user_stop",
    **more: Any,
) -> dict[str, Any]:
    """Return an episode."""
    return {
        "id": f"{task}-{trial}",
        "task_id": task,
        "trial": trial,
        "seed": trial,
        "termination_reason": termination,
        "reward_info": None if reward is None else {"reward": reward},
        "messages": list(messages),
        **more,
    }


def results(episodes: Sequence[dict[str, Any]], **info: Any) -> dict[str, Any]:
    """Return the content of a result file; keys of `info` replace those of ``INFO``."""
    tasks = [{"id": task} for task in dict.fromkeys(each["task_id"] for each in episodes)]
    return {"info": {**INFO, **info}, "tasks": tasks, "simulations": list(episodes)}


def write(path: Path, content: dict[str, Any]) -> Path:
    """Write a result file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def from_frames(frames: tuple[pd.DataFrame, pd.DataFrame]) -> dict[str, Any]:
    """Return the result file of an arm of ``tests._studies``."""
    table, made = frames
    names = {slot: list(part["name"]) for slot, part in made.groupby(["task", "trial"])}
    episodes = [
        episode(
            row.task,
            conversation(names.get((row.task, row.trial), []), row.agent_calls),
            trial=row.trial,
            reward=float(row.success),
            termination="too_many_errors" if row.errors >= 10 else "user_stop",
        )
        for row in table.itertuples()
    ]
    return results(episodes, num_trials=int(table["trial"].max()) + 1)


def changed(content: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """Return a copy with one value replaced; `place` is its keys with slashes between."""
    made = copy.deepcopy(content)
    *way, last = place.split("/")
    spot: Any = made
    for key in way:
        spot = spot[int(key)] if isinstance(spot, list) else spot[key]
    spot[int(last) if isinstance(spot, list) else last] = value
    return made


def phone_tools() -> list[str]:
    """Return eight of the phone's tools, which the agent cannot call, the first most often."""
    names = sorted(domains.user_tool_names("telecom"))[:8]
    return [name for index, name in enumerate(names) for _ in range(8 - index)]

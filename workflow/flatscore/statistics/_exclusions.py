"""Episodes that are left out of a score or that count as failed without a grade."""

import numpy as np
import pandas as pd

from flatscore.statistics._arms import Arm, Arms, Row


def missing_slots(arm: Arm, arms: Arms) -> list[tuple[str, int]]:
    """Return the (task, trial) of the cell's tasks and the arm's trials that have no episode."""
    cell = [a for a in arms.arms if (a.model, a.domain) == (arm.model, arm.domain)]
    tasks = sorted({task for a in cell for task in a.episodes["task"]})
    present = set(zip(arm.episodes["task"], arm.episodes["trial"], strict=True))
    trials = sorted(arm.episodes["trial"].unique())
    return [(task, trial) for task in tasks for trial in trials if (task, trial) not in present]


def worst_and_best(arm: Arm, arms: Arms) -> tuple[float, float]:
    """Return the score if every excluded or missing episode had failed, or succeeded."""
    out = len(arm.episodes) - len(arm.counted) + len(missing_slots(arm, arms))
    successes, total = int(arm.counted["success"].sum()), len(arm.counted) + out
    return (successes / total, (successes + out) / total) if total else (np.nan, np.nan)


def exclusions(arms: Arms) -> list[Row]:
    """Rows of ``exclusions``: one an arm and reason."""
    return [row for arm in arms.arms for row in _arm(arm, arms)]


def _arm(arm: Arm, arms: Arms) -> list[Row]:
    worst, best = worst_and_best(arm, arms)
    score = float(arm.counted["success"].mean()) if len(arm.counted) else np.nan
    bounds = {"score": score, "worst": worst, "best": best}
    frame = arm.episodes
    failures = frame[frame["status"] == "infrastructure"]
    ungraded = frame[frame["status"] == "ungraded"]
    found: list[Row] = [
        {"reason": reason, "excluded": True, "episodes": len(part), "tasks": _names(part["task"])}
        for reason, part in failures.groupby(failures["reason"].fillna("infrastructure"))
    ]
    if missing := missing_slots(arm, arms):
        tasks = _names(pd.Series([task for task, _ in missing]))
        found.append(
            {"reason": "missing", "excluded": True, "episodes": len(missing), "tasks": tasks}
        )
    if lost := int((frame["status"] == "harness_lost").sum()):
        found.append({"reason": "harness_lost", "excluded": False, "episodes": lost})
    found += [
        {"reason": reason, "excluded": False, "episodes": int(count)}
        for reason, count in ungraded["termination"].fillna("ungraded").value_counts().items()
    ]
    return [{**arm.key, **row, **bounds} for row in found]


def _names(tasks: pd.Series) -> str:
    return ", ".join(sorted(tasks.unique()))

"""Frames of synthetic studies, for the tests of the statistics."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

TASKS = [f"task-{index:03d}" for index in range(114)]
# Twelve fake tools, the first called most.
NAMES = [f"phone_tool_{index}" for index in range(12) for _ in range(12 - index)]
ARM = {"model": "m", "domain": "telecom", "precision": "bf16", "repair": "none", "budget": 10}


def arm(
    success: Any,
    events: Any,
    calls: Any,
    *,
    tasks: Sequence[str] = TASKS,
    names: Sequence[str] = ("reboot_device", "toggle_roaming", "check_sim", "open_app"),
    fresh: Sequence[str] = (),
    channel: str = "tool_name",
    **key: Any,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the episodes and the failed calls of one arm.

    `success`, `events` and `calls` are arrays of tasks x trials; every event is a failed call of
    `channel`, the k-th of the arm named after `names` in turn, and `fresh` replaces the last names.
    """
    success, events, calls = (np.asarray(each) for each in (success, events, calls))
    where = {**ARM, **key}
    grid = [(task, trial) for task in tasks for trial in range(success.shape[1])]
    flat = [each.ravel() for each in (success, events, calls)]
    episodes = pd.DataFrame(
        {
            **where,
            "task": [task for task, _ in grid],
            "trial": [trial for _, trial in grid],
            "success": flat[0].astype(bool),
            "reward": flat[0].astype(float),
            "termination": "user_stop",
            "errors": flat[1],
            "agent_errors": flat[1],
            "user_errors": 0,
            "agent_calls": flat[2],
            "interceptions": 0,
            "status": "graded",
            "reason": None,
            "file": f"{where['precision']}.json",
        }
    )
    return episodes, _calls(where, grid, flat[1], names, fresh, channel)


def _calls(
    where: dict[str, Any],
    grid: Sequence[tuple[str, int]],
    events: Any,
    names: Sequence[str],
    fresh: Sequence[str],
    channel: str,
) -> pd.DataFrame:
    rows = [(slot, call) for slot, count in zip(grid, events, strict=True) for call in range(count)]
    named: list[str | None] = [names[index % len(names)] for index in range(len(rows))]
    named[len(rows) - len(fresh) :] = list(fresh)
    return pd.DataFrame(
        {
            "task": [task for (task, _), _ in rows],
            "trial": pd.Series([trial for (_, trial), _ in rows], dtype=int),
            "call": pd.Series([call for _, call in rows], dtype=int),
            "name": named,
            "sub_kind": "user_side" if channel == "tool_name" else None,
            "channel": channel,
            "recovered": [11 * index % 20 < 11 for index in range(len(rows))],
            "position": [(call + 0.5) / 12 for _, call in rows],
        }
    ).assign(**where, requestor="assistant", error=True, intercepted=False)


def join(*arms: tuple[pd.DataFrame, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the frames of a study of these arms."""
    episodes, calls = zip(*arms, strict=True)
    return pd.concat(episodes, ignore_index=True), pd.concat(calls, ignore_index=True)


def random_arm(
    rng: np.random.Generator, *, score: float = 0.6, mean: float = 1.2, trials: int = 4, **key: Any
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return an arm with clustered successes and clustered, overdispersed fake-tool calls."""
    tasks = key.get("tasks", TASKS)
    ability = rng.beta(3 * score, 3 * (1 - score), size=(len(tasks), 1))
    rate = rng.gamma(0.7, mean / 0.7, size=(len(tasks), 1)) if mean else np.zeros((len(tasks), 1))
    events = np.minimum(rng.poisson(np.broadcast_to(rate, (len(tasks), trials))), 10)
    success = (rng.random(events.shape) < ability) & (events < 10)
    return arm(success, events, events + rng.poisson(8, size=events.shape), **key)


def spread(total: int, slots: int, *, most: int) -> np.ndarray[Any, Any]:
    """Return `slots` whole numbers that sum to `total`, falling, none above `most`."""
    weights = np.linspace(2, 0, slots)
    counts = np.minimum(np.floor(weights * total / weights.sum()), most).astype(int)
    index = 0
    while counts.sum() < total:
        counts[index % slots] += counts[index % slots] < most
        index += 1
    return counts


def golden_arm(
    successes: int, early: int, events: int, calls: int, *, noise: int, **key: Any
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return an arm of 114 x 4 episodes with exactly these totals, `early` of them at K = 2."""
    rng = np.random.default_rng(noise)
    ability = np.repeat(np.linspace(0, 1, 114), 4) + rng.normal(0, 0.15, 456)
    order = np.argsort(-ability)
    won, lost = order[:successes], order[successes:]
    count = np.zeros(456, dtype=int)
    count[won[:early]] = (np.arange(early) % 2) * (events > 0)
    count[won[early:]] = 3 + np.arange(successes - early) % 3
    count[lost] = spread(events - count.sum(), len(lost), most=10)
    total = count + spread(calls - count.sum(), 456, most=20)
    success = np.isin(np.arange(456), won)
    shape = (114, 4)
    return arm(success.reshape(shape), count.reshape(shape), total.reshape(shape), **key)


def study(seed: int = 0, **changes: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    return join(random_arm(rng, **changes), random_arm(rng, mean=2.5, precision="q", **changes))


def row(table: pd.DataFrame, **where: Any) -> pd.Series:
    """Return the one row with these values."""
    for column, value in where.items():
        table = table[table[column] == value]
    assert len(table) == 1, (where, len(table))
    return table.iloc[0]

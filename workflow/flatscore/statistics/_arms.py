"""The arms of a study, checked, with their per-task sums."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from flatscore.errors import InputError
from flatscore.statistics._draw import Draw, Sums, Vector

Row = dict[str, Any]  # a row of a table
AGENT_CHANNELS = ("tool_name", "arguments", "entity", "refusal", "runtime", "harness_lost")
CHANNELS = (*AGENT_CHANNELS, "user")
KEY = ["model", "domain", "precision", "repair", "budget"]
_EPISODES = [*KEY, "task", "trial", "success", "reward", "termination", "errors", "agent_calls"]
_EPISODES += ["interceptions", "status", "reason", "file"]
_CALLS = [*KEY, "task", "trial", "requestor", "name", "error", "channel", "sub_kind"]
_CALLS += ["recovered", "position", "intercepted"]


@dataclass(frozen=True)
class Arm:
    """A cell at one precision, repair and live budget: its episodes and calls.

    `episodes` holds every episode, `counted` those that are not infrastructure failures.
    """

    model: str
    domain: str
    precision: str
    repair: str
    budget: int
    episodes: pd.DataFrame
    calls: pd.DataFrame
    _features: dict[tuple[str, ...], dict[str, Vector]] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> Row:
        """The identifying columns of a table's row."""
        return {name: getattr(self, name) for name in KEY}

    @cached_property
    def counted(self) -> pd.DataFrame:
        """Episodes in the score."""
        return self.episodes[self.episodes["status"] != "infrastructure"]

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Tasks with a counted episode, sorted."""
        return tuple(sorted(self.counted["task"].unique()))

    @cached_property
    def trials(self) -> int:
        """Largest number of counted episodes of one task."""
        return int(self.counted["task"].value_counts().max()) if len(self.counted) else 0

    @cached_property
    def executed(self) -> pd.DataFrame:
        """Calls that reached the environment, with the unreadable replies."""
        return self.calls[~self.calls["intercepted"].astype(bool)]

    def restricted(self, episodes: pd.Series) -> "Arm":
        """Return the arm with the episodes where the boolean series is true, and their calls."""
        kept = self.episodes[episodes]
        slots = pd.MultiIndex.from_frame(kept[["task", "trial"]])
        calls = pd.MultiIndex.from_frame(self.calls[["task", "trial"]]).isin(slots)
        return replace(self, episodes=kept, calls=self.calls[calls], _features={})

    def features(self, tasks: Sequence[str]) -> Sums:
        """Return the sums over each task's counted episodes, one vector of len(tasks) a name."""
        if (known := tuple(tasks)) not in self._features:
            self._features[known] = _episode_sums(self, known) | _call_sums(self, known)
        return self._features[known]


def sum_by_task(
    frame: pd.DataFrame, tasks: Sequence[str], values: Iterable[float] | None = None
) -> Vector:
    """Sum `values` (1 if missing) over the rows of each task; rows of other tasks are ignored."""
    codes = pd.Index(tasks).get_indexer(pd.Index(frame["task"]))
    weights = np.ones(len(frame)) if values is None else np.asarray(values, dtype=float)
    inside = codes >= 0
    sums = np.bincount(codes[inside], weights=weights[inside], minlength=len(tasks))
    return sums.astype(float)


def _episode_sums(arm: Arm, tasks: Sequence[str]) -> dict[str, Vector]:
    frame = arm.counted
    success = frame["success"].to_numpy(dtype=float)
    errors = frame["errors"].to_numpy(dtype=float)
    sums = {
        "episodes": sum_by_task(frame, tasks),
        "success": sum_by_task(frame, tasks, success),
        "calls": sum_by_task(frame, tasks, frame["agent_calls"]),
        "errors": sum_by_task(frame, tasks, errors),
        "interceptions": sum_by_task(frame, tasks, frame["interceptions"]),
        "at_cap": sum_by_task(frame, tasks, errors >= arm.budget),
    }
    for k in range(arm.budget + 1):
        sums[f"survive_{k}"] = sum_by_task(frame, tasks, success * (errors <= k))
    return sums


def _call_sums(arm: Arm, tasks: Sequence[str]) -> dict[str, Vector]:
    frame = arm.executed
    channel = frame["channel"].to_numpy(dtype=object)
    calls = sum_by_task(arm.counted, tasks, arm.counted["agent_calls"])
    user = (frame["requestor"] == "user").to_numpy()
    sums = {"user_calls": sum_by_task(frame, tasks, user)}
    for name in CHANNELS:
        events = sum_by_task(frame, tasks, channel == name)
        bottom = sums["user_calls"] if name == "user" else calls
        sums[name] = events
        sums[f"{name}_share"] = np.divide(
            events, bottom, out=np.zeros(len(tasks)), where=bottom > 0
        )
        sums[f"{name}_recovered"], sums[f"{name}_recoverable"] = _recoveries(
            frame[channel == name], tasks
        )
    failed = [name for name in AGENT_CHANNELS if name != "harness_lost"]
    for key in ("recovered", "recoverable"):
        sums[key] = np.sum([sums[f"{name}_{key}"] for name in failed], axis=0)
    sums["called"] = (calls > 0).astype(float)
    sums["user_called"] = (sums["user_calls"] > 0).astype(float)
    return sums


def _recoveries(frame: pd.DataFrame, tasks: Sequence[str]) -> tuple[Vector, Vector]:
    known = frame["recovered"].notna().to_numpy()
    recovered = frame["recovered"].astype("boolean").fillna(False).to_numpy(dtype=bool)
    return sum_by_task(frame, tasks, recovered & known), sum_by_task(frame, tasks, known)


@dataclass(frozen=True)
class Arms:
    """The arms of a study in their order, with second runs and the draws they share."""

    arms: tuple[Arm, ...]
    reruns: tuple[tuple[Arm, Arm], ...]
    full_precision: str
    resamples: int
    seed: int
    _draws: dict[tuple[str, ...], Draw] = field(default_factory=dict, repr=False)

    def draw(self, tasks: Sequence[str]) -> Draw:
        """Return the draw of these tasks, made once."""
        if (known := tuple(tasks)) not in self._draws:
            self._draws[known] = Draw(known, resamples=self.resamples, seed=self.seed)
        return self._draws[known]

    def largest(self) -> list[Arm]:
        """Return each arm at its largest live budget, from which smaller ones are counted."""
        chosen: dict[tuple[str, ...], Arm] = {}
        for arm in self.arms:
            where = (arm.model, arm.domain, arm.precision, arm.repair)
            if where not in chosen or arm.budget > chosen[where].budget:
                chosen[where] = arm
        return list(chosen.values())

    def find(self, model: str, domain: str, precision: str, repair: str) -> Arm | None:
        """Return that arm at its largest budget, or None."""
        wanted = (model, domain, precision, repair)
        for arm in self.largest():
            if (arm.model, arm.domain, arm.precision, arm.repair) == wanted:
                return arm
        return None


def read_arms(
    episodes: pd.DataFrame, calls: pd.DataFrame, *, full_precision: str, resamples: int, seed: int
) -> Arms:
    """Check the frames and split them into arms.

    Raises
    ------
    InputError
        As :func:`flatscore.statistics.analyse`.
    """
    episodes = _normal(episodes, _EPISODES, "episodes")
    calls = _normal(calls, _CALLS, "calls")
    order = _order(episodes, full_precision)
    arms, reruns = [], []
    rows = calls.groupby(KEY, sort=False).indices if len(calls) else {}
    for key, frame in sorted(
        episodes.groupby(KEY, sort=False),
        key=lambda item: [order[i][v] for i, v in enumerate(item[0])],
    ):
        own = calls.iloc[rows[key]] if key in rows else calls.iloc[:0]
        first, *others = _runs(dict(zip(KEY, key, strict=True)), frame, own)
        arms.append(first)
        reruns += [(first, other) for other in others]
    return Arms(tuple(arms), tuple(reruns), full_precision, resamples, seed)


def _normal(frame: pd.DataFrame, columns: Sequence[str], name: str) -> pd.DataFrame:
    if not len(frame.columns) and name == "calls":
        frame = pd.DataFrame(columns=list(columns))
    if missing := [column for column in columns if column not in frame]:
        raise InputError(
            f"the frame of {name}", f"lacks {', '.join(missing)}.", "Run the stage calls again."
        )
    frame = frame.copy()
    frame["repair"] = frame["repair"].fillna("none")
    if frame["budget"].isna().any():
        raise InputError(
            f"the frame of {name}", "has rows without a budget.", "Give the runs' max_errors."
        )
    for column in ("budget", "trial"):
        frame[column] = frame[column].astype(int)
    frame["task"] = frame["task"].astype(str)
    if name == "episodes":
        frame["success"] = frame["success"].fillna(False).astype(bool)
        for column in ("errors", "agent_calls", "interceptions"):
            frame[column] = frame[column].fillna(0).astype(int)
    return frame


def _order(episodes: pd.DataFrame, full_precision: str) -> list[dict[Any, int]]:
    """Return the rank of each value of KEY: appearance, full precision first, budgets falling."""
    ranks = [
        {value: rank for rank, value in enumerate(episodes[column].unique())} for column in KEY
    ]
    ranks[2] = {name: -1 if name == full_precision else rank for name, rank in ranks[2].items()}
    ranks[3] = {name: -1 if name == "none" else rank for name, rank in ranks[3].items()}
    ranks[4] = {budget: -int(budget) for budget in ranks[4]}
    return ranks


def _runs(key: Row, frame: pd.DataFrame, calls: pd.DataFrame) -> list[Arm]:
    """Split an arm that was run twice, from two files, into its runs."""
    slot = ["task", "trial"]
    if not frame.duplicated(slot).any():
        return [Arm(**key, episodes=frame, calls=calls)]
    if (twice := frame[frame.duplicated([*slot, "file"])]).size:
        where = ", ".join(f"task {t} trial {n}" for t, n in twice[slot].head(3).to_numpy())
        raise InputError(
            twice["file"].iloc[0],
            f"has {len(twice)} episodes twice ({where}).",
            "Keep one episode for each task and trial.",
        )
    if "file" not in calls:
        raise InputError(
            frame["file"].iloc[0],
            f"and {frame['file'].iloc[-1]} are two runs of one arm, but the calls name no file.",
            "Run the stage calls again.",
        )
    return [
        Arm(
            **key,
            episodes=frame[frame["file"] == name],
            calls=calls[calls["file"] == name],
        )
        for name in frame["file"].unique()
    ]

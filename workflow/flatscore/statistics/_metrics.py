"""What is compared between two arms, each metric as a function of an arm's weighted sums."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flatscore.statistics._arms import CHANNELS, Arm, Arms
from flatscore.statistics._resampling import (
    Draw,
    Estimate,
    Rows,
    Vector,
    divide,
    summarise,
    weigh_pair,
)

# Fewer tasks with an event than this in one arm: the error of the log ratio is not to be trusted.
MIN_TASKS = 5


@dataclass(frozen=True)
class Metric:
    """A value of one arm; two arms are compared by its difference or its ratio."""

    name: str
    value: Callable[[Rows], Vector]
    ratio: bool = False


def _share(top: str, bottom: str) -> Callable[[Rows], Vector]:
    return lambda rows: divide(rows[top], rows[bottom])


def metrics(*, k: int, budget: int) -> list[Metric]:
    """Return the metrics of two arms run at `budget` with the pre-specified K `k`."""
    found = [Metric("score", _share("success", "episodes"))]
    for channel in CHANNELS:
        user = "user_" if channel == "user" else ""
        found += [
            Metric(f"{channel}_rate", _share(channel, f"{user}calls")),
            Metric(f"{channel}_rate_per_task", _share(f"{channel}_share", f"{user}called")),
            Metric(f"{channel}_count_ratio", _share(channel, "episodes"), ratio=True),
            Metric(f"{channel}_events_per_episode", _share(channel, "episodes")),
        ]
    return [
        *found,
        Metric("errors_per_episode", _share("errors", "episodes")),
        Metric("calls_per_episode", _share("calls", "episodes")),
        Metric("recovery", _share("recovered", "recoverable")),
        Metric("share_at_cap", _share("at_cap", "episodes")),
        Metric(f"gap_widening_k{k}", hidden_share(k, budget)),
    ]


def hidden_share(k: int, budget: int) -> Callable[[Rows], Vector]:
    """Return S(budget) - S(k): episodes that succeed although more than k calls failed.

    Its difference between low and full precision is gap(k) - gap(budget).
    """
    if k >= budget:
        return lambda rows: np.full_like(rows["episodes"], np.nan)
    return lambda rows: divide(rows[f"survive_{budget}"] - rows[f"survive_{k}"], rows["episodes"])


@dataclass(frozen=True)
class Pair:
    """Two arms on common tasks: sums by task, and weighted by a draw with labels also swapped."""

    draw: Draw
    sums_full: Rows
    sums_low: Rows
    rows_full: Rows
    rows_low: Rows
    note: str = ""


def pair_arms(full: Arm, low: Arm, arms: Arms) -> Pair:
    """Weigh two arms on the tasks that both have; the note says what was left out."""
    tasks = tuple(sorted(set(full.tasks) & set(low.tasks)))
    notes = []
    if dropped := sorted(set(full.tasks) ^ set(low.tasks)):
        shown = ", ".join(dropped[:3]) + (", ..." if len(dropped) > 3 else "")
        notes.append(f"{len(dropped)} tasks are in one arm only and left out ({shown})")
    if full.trials != low.trials:
        notes.append(f"trials differ ({full.trials} and {low.trials})")
    return pair_sums(full.features(tasks), low.features(tasks), arms.draw(tasks), "; ".join(notes))


def pair_sums(full: Rows, low: Rows, draw: Draw, note: str = "") -> Pair:
    """Weigh two arms given their sums by task.

    A task enters the mean over tasks of a rate's difference only if both arms called in it.
    """
    first, second = dict(full), dict(low)
    for called in ("called", "user_called"):
        first[called] = second[called] = full[called] * low[called]
    for channel in CHANNELS:
        called = "user_called" if channel == "user" else "called"
        for arm in (first, second):
            arm[f"{channel}_share"] = arm[f"{channel}_share"] * first[called]
    return Pair(draw, first, second, *weigh_pair(draw, first, second), note)


@dataclass(frozen=True)
class Comparison:
    """One metric in two arms."""

    metric: str
    full: float
    low: float
    estimate: Estimate


def compare(pair: Pair, metric: Metric, *, confidence: float) -> Comparison:
    """Compare one metric; what cannot be estimated is missing with the reason in the note."""
    full, low = metric.value(pair.rows_full), metric.value(pair.rows_low)
    if metric.ratio:
        estimate = _ratio(pair, metric, full, low, confidence)
    else:
        estimate = summarise(low - full, pair.draw, confidence=confidence)
    return Comparison(metric.name, float(full[0]), float(low[0]), estimate)


def _ratio(pair: Pair, metric: Metric, full: Vector, low: Vector, confidence: float) -> Estimate:
    channel = metric.name.removesuffix("_count_ratio")
    if not full[0]:
        both = "in either arm" if not low[0] else "at full precision"
        return Estimate(note=f"no event {both}: no ratio, see {channel}_events_per_episode")
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.log(low) - np.log(full)
    found = summarise(rows, pair.draw, confidence=confidence, log=True)
    hit = [int((sums[channel] > 0).sum()) for sums in (pair.sums_full, pair.sums_low)]
    if not low[0]:
        return Estimate(value=0.0, p_value=found.p_value, note="no event at low precision")
    if min(hit) < MIN_TASKS:
        note = f"events in {hit[0]} and {hit[1]} tasks: too few for an interval of the ratio"
        return Estimate(value=found.value, p_value=found.p_value, note=note)
    return found

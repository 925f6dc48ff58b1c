"""What is compared between two arms: each metric a ratio of an arm's sums."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flatscore.statistics._arms import CHANNELS, Arm, Arms
from flatscore.statistics._draw import Draw, Sums, Vector
from flatscore.statistics._resampling import MIN_TASKS, Estimate, Term, estimate


@dataclass(frozen=True)
class Metric:
    """A ratio of sums of one arm; two arms are compared by its difference or its ratio.

    Parameters
    ----------
    top, bottom
        Numerator by task and name of the denominator.
    ratio
        Compare by ratio.
    unit
        Within a task the value lies in 0..1.
    """

    name: str
    top: Callable[[Sums], Vector]
    bottom: str
    ratio: bool = False
    unit: bool = False

    def term(self, sums: Sums, sign: float) -> Term:
        """Return the metric of one arm."""
        return Term(sign, self.top(sums), sums[self.bottom])

    def value(self, sums: Sums) -> float:
        """Return the metric of one arm over all its tasks."""
        bottom = sums[self.bottom].sum()
        return float(self.top(sums).sum() / bottom) if bottom else np.nan


def metrics(*, k: int, budget: int) -> list[Metric]:
    """Return the metrics of two arms run at `budget` with the pre-specified K `k`."""
    found = [Metric("score", _named("success"), "episodes", unit=True)]
    for channel in CHANNELS:
        user = "user_" if channel == "user" else ""
        one, share = _named(channel), _named(f"{channel}_share")
        found += [
            Metric(f"{channel}_rate", one, f"{user}calls", unit=channel != "harness_lost"),
            Metric(f"{channel}_rate_per_task", share, f"{user}called"),
            Metric(f"{channel}_count_ratio", one, "episodes", ratio=True),
            Metric(f"{channel}_events_per_episode", one, "episodes"),
        ]
    return [
        *found,
        Metric("errors_per_episode", _named("errors"), "episodes"),
        Metric("calls_per_episode", _named("calls"), "episodes"),
        Metric("recovery", _named("recovered"), "recoverable"),
        Metric("share_at_cap", _named("at_cap"), "episodes", unit=True),
        hidden_share(k, budget),
    ]


def _named(name: str) -> Callable[[Sums], Vector]:
    return lambda sums: sums[name]


def surviving_share(k: int) -> Metric:
    """Return S(k), the share of episodes with reward 1 and at most k failed calls."""
    return Metric(f"s_{k}", _named(f"survive_{k}"), "episodes", unit=True)


def hidden_share(k: int, budget: int) -> Metric:
    """Return S(budget) - S(k): episodes that succeed although more than k calls failed.

    Its difference between low and full precision is gap(k) - gap(budget). For k above the budget
    it is undefined.
    """

    def top(sums: Sums) -> Vector:
        if k > budget:
            return np.full_like(sums["episodes"], np.nan)
        return sums[f"survive_{budget}"] - sums[f"survive_{k}"]

    return Metric(f"gap_widening_k{k}", top, "episodes", unit=True)


@dataclass(frozen=True)
class Pair:
    """The sums by task of two arms on the tasks they share, and the draw of these tasks."""

    draw: Draw
    full: Sums
    low: Sums
    note: str = ""

    def terms(self, metric: Metric) -> list[Term]:
        """Return the metric's difference, low minus full."""
        return [metric.term(self.full, -1.0), metric.term(self.low, 1.0)]


def pair_arms(full: Arm, low: Arm, arms: Arms) -> Pair:
    """Pair two arms on the tasks that both have; the note says what was left out."""
    tasks = tuple(sorted(set(full.tasks) & set(low.tasks)))
    notes = []
    if dropped := sorted(set(full.tasks) ^ set(low.tasks)):
        shown = ", ".join(dropped[:3]) + (", ..." if len(dropped) > 3 else "")
        notes.append(f"{len(dropped)} tasks are in one arm only and left out ({shown})")
    if full.trials != low.trials:
        notes.append(f"trials differ ({full.trials} and {low.trials})")
    return pair_sums(full.features(tasks), low.features(tasks), arms.draw(tasks), "; ".join(notes))


def pair_sums(full: Sums, low: Sums, draw: Draw, note: str = "") -> Pair:
    """Pair two arms given their sums by task.

    A task enters the mean over tasks of a rate's difference only if both arms called in it.
    """
    first, second = dict(full), dict(low)
    for called in ("called", "user_called"):
        first[called] = second[called] = full[called] * low[called]
    for channel in CHANNELS:
        called = "user_called" if channel == "user" else "called"
        for arm in (first, second):
            arm[f"{channel}_share"] = arm[f"{channel}_share"] * first[called]
    return Pair(draw, first, second, note)


@dataclass(frozen=True)
class Comparison:
    """One metric in two arms."""

    metric: str
    full: float
    low: float
    estimate: Estimate


def compare(pair: Pair, metric: Metric, *, confidence: float) -> Comparison:
    """Compare one metric; what cannot be estimated is missing with the reason in the note."""
    full, low = metric.value(pair.full), metric.value(pair.low)
    if metric.ratio:
        found = _ratio(pair, metric, full, low, confidence)
    else:
        terms = pair.terms(metric)
        found = estimate(terms, pair.draw, confidence=confidence, unit=metric.unit)
    return Comparison(metric.name, full, low, found)


def _ratio(pair: Pair, metric: Metric, full: float, low: float, confidence: float) -> Estimate:
    channel = metric.name.removesuffix("_count_ratio")
    if not full:
        where = "in either arm" if not low else "at full precision"
        return Estimate(note=f"no event {where}: no ratio, see {channel}_events_per_episode")
    if not low:
        return Estimate(value=0.0, note="no event at low precision: no interval of the ratio")
    found = estimate(pair.terms(metric), pair.draw, confidence=confidence, log=True)
    hit = [int((sums[channel] > 0).sum()) for sums in (pair.full, pair.low)]
    if min(hit) < MIN_TASKS:
        note = f"events in {hit[0]} and {hit[1]} tasks: too few for an interval of the ratio"
        return Estimate(value=found.value, p_value=found.p_value, note=note)
    return found

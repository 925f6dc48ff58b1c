"""The one resampling engine: a draw of tasks, reused for every arm, budget and metric.

Everything measured reduces to sums over tasks. A draw is a matrix of task weights, one row a
data set: first the data as they are, then each with one task left out (the jackknife), then the
bootstrap resamples; a second matrix of signs swaps the labels of two arms within tasks. A
statistic is a function of weighted sums, evaluated on all rows at once.

Intervals: value ± q x the delete-one-task jackknife error (ratios on the log scale). q is the
quantile of the absolute studentized bootstrap statistic, at least Student's t with tasks - 1
degrees of freedom. Where fewer than ``MIN_TASKS`` tasks carry a difference no such interval
holds; shares then get exact binomial bounds with the task as the trial, other quantities none.
Plain percentile intervals of the same draw are reported beside them; ``resources/coverage.tsv``
holds the measured coverage of both. p-values: labels swapped within tasks, exact in level
whatever the skew or the number of empty tasks. Simultaneous bands: the largest studentized
deviation over the curve.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from flatscore.statistics._draw import Draw, Matrix, Vector, divide, jackknife_error, t_quantile

# Fewer tasks that differ than this: no interval from a standard error can be trusted.
MIN_TASKS = 5


@dataclass(frozen=True)
class Term:
    """A signed ratio of sums, the building block of a statistic; vectors are over the tasks."""

    sign: float
    top: Vector
    bottom: Vector


@dataclass(frozen=True)
class Estimate:
    """A statistic with what can be said about its error; missing values are NaN, with a note."""

    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    boot_low: float = np.nan
    boot_high: float = np.nan
    p_value: float = np.nan
    error: float = np.nan  # standard error, of the logarithm for a ratio
    constant: bool = False  # no task differs from another
    few: tuple[int, int] | None = None  # tasks above and below 0, where these are too few
    note: str = ""


def estimate(
    terms: Sequence[Term],
    draw: Draw,
    *,
    confidence: float,
    log: bool = False,
    unit: bool = False,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """Estimate a signed sum of ratios, such as the difference of two arms' rates.

    Parameters
    ----------
    terms
        One arm, or pairs of arms (minuend second): the labels of each pair are swapped for the
        p-value, which one arm does not get.
    log
        Sum the logarithms; value and intervals are returned as ratios.
    unit
        Within one task the statistic lies in -1..1, so that exact bounds hold.
    bounds
        Range of the statistic, to which intervals are clipped.
    """
    found, _ = estimate_with_deviations(terms, draw, confidence, log=log, unit=unit, bounds=bounds)
    if len(terms) == 1 or np.isnan(found.value):
        return found
    swapped = _evaluate_swapped(terms, draw, log)
    value = float(np.log(found.value)) if log else found.value
    return replace(found, p_value=_p_value(swapped, value))


def estimate_with_deviations(
    terms: Sequence[Term],
    draw: Draw,
    confidence: float,
    *,
    log: bool = False,
    unit: bool = False,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[Estimate, Vector]:
    """Return the estimate without its p-value, and the studentized deviations behind it."""
    rows = _evaluate(terms, draw.weights, log)
    none = np.zeros(draw.resamples)
    if np.isnan(rows[0]):
        return Estimate(note="no data"), none
    above, below = _signs_by_task(terms)
    if min(above + below, draw.size) < MIN_TASKS and not log:
        return _few(float(rows[0]), draw, (above, below), confidence, unit), none
    found = summarise(rows, draw, confidence=confidence, log=log, bounds=bounds)
    if np.isnan(found.error):
        return found, none
    deviation = np.abs(studentize(terms, rows, draw, log))
    factor = max(t_quantile(confidence, draw), deviation_quantile(deviation, confidence))
    ends = (float(rows[0]) + side * factor * found.error for side in (-1, 1))
    low, high = (float(np.clip(np.exp(end) if log else end, *bounds)) for end in ends)
    return replace(found, low=low, high=high), deviation


def _evaluate(terms: Sequence[Term], weights: Matrix, log: bool) -> Vector:
    columns = [column for term in terms for column in (term.top, term.bottom)]
    sums = weights @ np.column_stack(columns)
    return _combine(terms, sums, log)


def _combine(terms: Sequence[Term], sums: Matrix, log: bool) -> Vector:
    total = np.zeros(len(sums))
    for index, term in enumerate(terms):
        ratio = divide(sums[:, 2 * index], sums[:, 2 * index + 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            total += term.sign * (np.log(ratio) if log else ratio)
    return total


def _evaluate_swapped(terms: Sequence[Term], draw: Draw, log: bool) -> Vector:
    """Evaluate with the labels of each pair of arms swapped in the tasks of sign -1.

    Swapping a task moves its sums from one arm to the other, so both arms' sums follow from the
    total and the signed difference.
    """
    columns = []
    for first, second in zip(terms[::2], terms[1::2], strict=True):
        pair = [np.column_stack([term.top, term.bottom]) for term in (first, second)]
        total = (pair[0] + pair[1]).sum(axis=0)
        moved = draw.signs @ (pair[1] - pair[0])
        columns += [(total - moved) / 2, (total + moved) / 2]
    return _combine(terms, np.column_stack(columns), log)


def _signs_by_task(terms: Sequence[Term]) -> tuple[int, int]:
    """Return in how many tasks the statistic, taken in the task alone, is above and below 0."""
    own = np.zeros(len(terms[0].top))
    for term in terms:
        own += term.sign * np.nan_to_num(divide(term.top, term.bottom))
    return int((own > 1e-12).sum()), int((own < -1e-12).sum())


def _few(
    value: float,
    draw: Draw,
    signs: tuple[int, int],
    confidence: float,
    unit: bool,
) -> Estimate:
    """Return what can be said when few tasks carry a difference."""
    count = sum(signs)
    which = f"not 0 in {count} of {draw.size} tasks"
    if not unit:
        constant = not count
        note = "no event" if constant else f"{which}: too few for an interval"
        return Estimate(value, constant=constant, few=signs, note=note)
    low, high = few_bounds(signs, draw, confidence=confidence)
    note = f"{which}: exact bounds with the task as the trial"
    return Estimate(value, low, high, constant=not count, few=signs, note=note)


def few_bounds(signs: tuple[int, int], draw: Draw, *, confidence: float) -> tuple[float, float]:
    """Return exact bounds of a mean over tasks that lies in -1..1 in each of them.

    The mean is at most the probability that a task is above 0, and that has a Clopper-Pearson
    bound; likewise below 0. `signs` are the numbers of tasks above and below 0.
    """
    level = 0.5 + confidence / 2
    above, below = (
        float(stats.beta.ppf(level, count + 1, draw.size - count)) if count < draw.size else 1.0
        for count in signs
    )
    return -below, above


def studentize(terms: Sequence[Term], rows: Vector, draw: Draw, log: bool) -> Vector:
    """Return (resampled - observed) / its linearized error, on the bootstrap rows.

    `rows` are the statistic's values on the rows of the draw. The linearized error of a resample
    is that of the mean of its tasks' influences, a quadratic form in the weighted products of
    their sums.
    """
    weights = draw.weights[1 + draw.size :]
    columns = np.column_stack([c for term in terms for c in (term.top, term.bottom)])
    width = columns.shape[1]
    sums = weights @ columns
    slopes = np.empty_like(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        for index, term in enumerate(terms):
            top, bottom = sums[:, 2 * index], sums[:, 2 * index + 1]
            slopes[:, 2 * index] = term.sign / (top if log else bottom)
            slopes[:, 2 * index + 1] = -term.sign * (1 if log else top / bottom) / bottom
        products = (columns[:, :, None] * columns[:, None, :]).reshape(len(columns), width**2)
        weighted = (weights @ products).reshape(-1, width, width)
        # ufuncs in place of a slow three-operand einsum
        variance = ((weighted @ slopes[:, :, None])[:, :, 0] * slopes).sum(axis=1)
        error = np.sqrt(np.maximum(variance, 0) * draw.size / (draw.size - 1))
        return np.asarray((rows[1 + draw.size :] - rows[0]) / error)


def deviation_quantile(deviation: Vector, level: float) -> float:
    """Return a quantile; 0, for Student's t alone, where too much cannot be computed."""
    ordered = np.sort(np.where(np.isfinite(deviation), deviation, np.inf))
    found = float(ordered[min(int(np.ceil(level * len(ordered))), len(ordered) - 1)])
    return found if np.isfinite(found) else 0.0


def summarise(
    rows: Vector,
    draw: Draw,
    *,
    confidence: float,
    log: bool = False,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """Turn any statistic on every row of the draw into an estimate with a t interval.

    For statistics that are no sum of ratios; the others go through :func:`estimate`.
    """
    size, value = draw.size, float(rows[0])
    back = np.exp if log else float
    if np.isnan(value):
        return Estimate(note="no data")
    point = float(back(value))
    if size < 2:
        return Estimate(point, note="one task: no interval")
    if not np.isfinite(rows[: 1 + size]).all():
        return Estimate(point, note="hangs on a single task: no interval")
    error = float(jackknife_error(rows, draw))
    if error < 1e-10:
        return Estimate(point, constant=True, note="the same in every task: no interval")
    half = t_quantile(confidence, draw) * error
    low, high = (float(np.clip(back(value + side * half), *bounds)) for side in (-1, 1))
    bootstrap = rows[1 + size :]
    finite = bootstrap[np.isfinite(bootstrap)]
    tail = (1 - confidence) / 2
    boot_low = boot_high = np.nan
    if len(finite) > 0.99 * len(bootstrap):
        boot_low, boot_high = (float(back(q)) for q in np.quantile(finite, [tail, 1 - tail]))
    return Estimate(point, low, high, boot_low, boot_high, error=error)


def _p_value(swapped: Vector, value: float) -> float:
    """Return the two-sided share of label swaps at least as extreme as the data."""
    extreme = ~(np.abs(swapped) < abs(value) - 1e-9)  # what cannot be computed counts against
    return float((1 + extreme.sum()) / (1 + len(swapped)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p-values; missing ones stay missing and do not count."""
    values = np.asarray(p_values, dtype=float)
    adjusted = np.full(len(values), np.nan)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else []
    return [float(value) for value in adjusted]

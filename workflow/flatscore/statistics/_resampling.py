"""The one resampling engine: a draw of tasks, reused for every arm, budget and metric.

Everything measured reduces to sums over tasks. A draw is a matrix of task weights, one row a
data set: first the data as they are, then each with one task left out (the jackknife), then the
bootstrap resamples; a second matrix of signs swaps the labels of two arms within tasks. A
statistic is a function of weighted sums, evaluated on all rows at once.

Intervals: Student's t with the delete-one-task jackknife error and tasks - 1 degrees of freedom
(ratios on the log scale). Plain percentile intervals of the same draw are reported beside them;
``resources/coverage.tsv`` holds the measured coverage of both. p-values: labels swapped within
tasks, exact in level whatever the skew or the number of empty tasks. Simultaneous bands: the
largest studentized deviation over the curve, from the bootstrap rows.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Rows = Mapping[str, Vector]


class Draw:
    """Task weights and label swaps for one set of tasks.

    Parameters
    ----------
    tasks
        Task ids; their order is that of the columns. The same set gives the same draw, so arms
        and cells with the same tasks are resampled together.
    resamples
        Bootstrap rows, and rows of label swaps.
    seed
        Seed of the study.
    """

    def __init__(self, tasks: Sequence[str], *, resamples: int, seed: int) -> None:
        self.tasks = tuple(tasks)
        self.resamples = resamples
        digest = hashlib.sha256(json.dumps(sorted(self.tasks)).encode()).hexdigest()
        self._entropy = [seed, int(digest[:16], 16)]

    @property
    def size(self) -> int:
        """Number of tasks."""
        return len(self.tasks)

    @cached_property
    def weights(self) -> Matrix:
        """Rows (1 + tasks + resamples) x tasks: data, jackknife, bootstrap."""
        size = self.size
        rng = np.random.default_rng([*self._entropy, 0])
        bootstrap = rng.multinomial(size, np.full(size, 1 / size), size=self.resamples)
        return np.vstack([np.ones((1, size)), 1 - np.eye(size), bootstrap])

    @cached_property
    def signs(self) -> Matrix:
        """Rows resamples x tasks of -1 (labels swapped) and 1."""
        rng = np.random.default_rng([*self._entropy, 1])
        coins: Matrix = rng.integers(0, 2, size=(self.resamples, self.size)).astype(float)
        return 2 * coins - 1


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
    note: str = ""


def weigh(draw: Draw, features: Mapping[str, Vector]) -> dict[str, Vector]:
    """Return the weighted sums of one arm's per-task features on every row of the draw."""
    sums = draw.weights @ np.column_stack(list(features.values()))
    return {name: sums[:, column] for column, name in enumerate(features)}


def weigh_pair(
    draw: Draw, full: Mapping[str, Vector], low: Mapping[str, Vector]
) -> tuple[dict[str, Vector], dict[str, Vector]]:
    """As :func:`weigh` for two arms, followed by the rows in which their labels are swapped.

    Swapping the labels of a task moves its sums from one arm to the other, so both arms' sums
    follow from the total and the signed difference.
    """
    first, second = (np.column_stack(list(arm.values())) for arm in (full, low))
    total = (first + second).sum(axis=0)
    moved = draw.signs @ (second - first)
    rows_full = np.vstack([draw.weights @ first, (total - moved) / 2])
    rows_low = np.vstack([draw.weights @ second, (total + moved) / 2])
    return (
        {name: rows_full[:, column] for column, name in enumerate(full)},
        {name: rows_low[:, column] for column, name in enumerate(full)},
    )


def divide(top: Vector, bottom: Vector) -> Vector:
    """Divide; NaN where nothing is to be divided by."""
    return np.divide(
        top, bottom, out=np.full_like(top, np.nan), where=np.broadcast_to(bottom > 1e-9, top.shape)
    )


def jackknife_error(rows: Vector, draw: Draw) -> Vector:
    """Return the delete-one-task standard error of each statistic; `rows` is rows x …"""
    left_out = rows[1 : 1 + draw.size]
    spread = ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(np.sqrt(spread * (draw.size - 1) / draw.size))


def t_quantile(level: float, draw: Draw) -> float:
    """Return the two-sided t quantile at `level` for the draw's tasks."""
    return float(stats.t.ppf(0.5 + level / 2, draw.size - 1))


def summarise(
    rows: Vector,
    draw: Draw,
    *,
    confidence: float,
    log: bool = False,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:
    """Turn a statistic on every row into an estimate, its interval and its p-value.

    Parameters
    ----------
    rows
        Values on the rows of :func:`weigh` or :func:`weigh_pair` (only these give a p-value).
    log
        The rows are logarithms; value and intervals are returned as ratios.
    bounds
        Range of the statistic, to which intervals are clipped.
    """
    size, value = draw.size, float(rows[0])
    back = np.exp if log else float
    if np.isnan(value):
        return Estimate(note="no data")
    p_value = _swap_p_value(rows, draw)
    point = float(back(value))
    if size < 2:
        return Estimate(point, note="one task: no interval")
    if not np.isfinite(rows[: 1 + size]).all():
        return Estimate(point, p_value=p_value, note="hangs on a single task: no interval")
    error = float(jackknife_error(rows, draw))
    if error < 1e-10:
        return Estimate(
            point, p_value=p_value, constant=True, note="the same in every task: no interval"
        )
    half = t_quantile(confidence, draw) * error
    low, high = (float(np.clip(back(value + side * half), *bounds)) for side in (-1, 1))
    bootstrap = rows[1 + size : 1 + size + draw.resamples]
    tail = (1 - confidence) / 2
    boot = [np.nan, np.nan]
    if np.isfinite(bootstrap).mean() > 0.99:
        finite = bootstrap[np.isfinite(bootstrap)]
        boot = [float(back(q)) for q in np.quantile(finite, [tail, 1 - tail])]
    return Estimate(
        point, low=low, high=high, boot_low=boot[0], boot_high=boot[1], p_value=p_value, error=error
    )


def _swap_p_value(rows: Vector, draw: Draw) -> float:
    """Return the two-sided share of label swaps at least as extreme as the data."""
    swapped = rows[1 + draw.size + draw.resamples :]
    if not len(swapped):
        return np.nan
    extreme = ~(np.abs(swapped) < abs(rows[0]) - 1e-9)  # what cannot be computed counts against
    return float((1 + extreme.sum()) / (1 + len(swapped)))


def simultaneous_quantile(rows: Matrix, draw: Draw, *, confidence: float) -> float:
    """Return the factor of the standard errors that covers a whole curve at once.

    The quantile over resamples of the largest studentized deviation (sup-t band); at least the
    pointwise t quantile. `rows` is rows x points; points without variation are left out.
    """
    error = jackknife_error(rows, draw)
    moving = error > 1e-10
    pointwise = t_quantile(confidence, draw)
    if not moving.any():
        return pointwise
    bootstrap = rows[1 + draw.size : 1 + draw.size + draw.resamples, moving]
    deviation = np.abs(bootstrap - rows[0, moving]) / error[moving]
    return max(pointwise, float(np.quantile(deviation.max(axis=1), confidence)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm-adjusted p-values; missing ones stay missing and do not count."""
    values = np.asarray(p_values, dtype=float)
    adjusted = np.full(len(values), np.nan)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else []
    return [float(value) for value in adjusted]

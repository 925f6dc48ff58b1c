"""A draw of tasks as a matrix of weights, and sums under it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Sums = Mapping[str, Vector]  # by task


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


def weigh(draw: Draw, features: Mapping[str, Vector]) -> dict[str, Vector]:
    """Return the weighted sums of per-task features on every row of the draw."""
    sums = draw.weights @ np.column_stack(list(features.values()))
    return {name: sums[:, column] for column, name in enumerate(features)}


def divide(top: Vector, bottom: Vector) -> Vector:
    """Divide; NaN where nothing is to be divided by."""
    known = np.broadcast_to(bottom > 1e-9, top.shape)
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=known)


def jackknife_error(rows: Vector, draw: Draw) -> Vector:
    """Return the delete-one-task standard error of each statistic; `rows` is rows x …"""
    left_out = rows[1 : 1 + draw.size]
    spread = ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(np.sqrt(spread * (draw.size - 1) / draw.size))


def t_quantile(level: float, draw: Draw) -> float:
    """Return the two-sided t quantile at `level` for the draw's tasks."""
    return float(stats.t.ppf(0.5 + level / 2, draw.size - 1))

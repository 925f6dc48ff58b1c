"""The names of fake tools: which, how often, and how alike two arms are in them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from flatscore.statistics._arms import Arm, Row
from flatscore.statistics._draw import Draw, Matrix, Vector, divide
from flatscore.statistics._metrics import Comparison
from flatscore.statistics._resampling import Estimate, summarise

if TYPE_CHECKING:
    from flatscore.statistics._contrasts import Contrast

METRICS = (
    "novel_event_share",
    "vocabulary_spearman",
    "vocabulary_jaccard",
    "vocabulary_jensen_shannon",
)


def fake_calls(arm: Arm) -> pd.DataFrame:
    """Return the executed calls to names that are not on the agent's list; no name is ''."""
    calls = arm.executed[arm.executed["channel"] == "tool_name"]
    return calls.assign(name=calls["name"].fillna("").astype(str))


def vocabulary_metrics(full: Arm, low: Arm, draw: Draw, *, confidence: float) -> list[Comparison]:
    """Compare two arms' names; a statistic of both, so there is no value of each alone.

    No p-value: more events reveal more rare names, so the figure to compare with is the same one
    between two halves of the full-precision arm (column ``noise``), whose smaller volume makes
    it the stricter baseline.
    """
    first, second = fake_calls(full), fake_calls(low)
    names = sorted({*first["name"], *second["name"]})
    if not len(first) or not len(second):
        empty = Estimate(note="no call to a fake tool in one arm")
        return [Comparison(metric, np.nan, np.nan, empty) for metric in METRICS]
    sums = [_by_name(calls, names, draw) for calls in (first, second)]
    statistics = (_novel_share, _spearman, _jaccard, _jensen_shannon)
    found = []
    for metric, statistic in zip(METRICS, statistics, strict=True):
        bounds = (-1.0, 1.0) if metric == "vocabulary_spearman" else (0.0, 1.0)
        rows = statistic(*sums)
        estimate = summarise(rows, draw, confidence=confidence, bounds=bounds)
        if metric == "vocabulary_spearman" and np.isnan(estimate.value):
            estimate = Estimate(note="fewer than three names, or all equally frequent")
        found.append(Comparison(metric, np.nan, np.nan, estimate))
    return found


def _by_name(calls: pd.DataFrame, names: Sequence[str], draw: Draw) -> Matrix:
    """Return events on every row of the draw, rows x names."""
    tasks = pd.Index(draw.tasks).get_indexer(pd.Index(calls["task"]))
    columns = pd.Index(names).get_indexer(pd.Index(calls["name"]))
    counts = np.zeros((draw.size, len(names)))
    np.add.at(counts, (tasks[tasks >= 0], columns[tasks >= 0]), 1)
    return draw.weights @ counts


def _novel_share(full: Matrix, low: Matrix) -> Vector:
    return divide((low * (full == 0)).sum(axis=1), low.sum(axis=1))


def _jaccard(full: Matrix, low: Matrix) -> Vector:
    both = ((full > 0) & (low > 0)).sum(axis=1).astype(float)
    return divide(both, ((full > 0) | (low > 0)).sum(axis=1).astype(float))


def _spearman(full: Matrix, low: Matrix) -> Vector:
    """Rank correlation of frequencies over the union of names of the data."""
    if full.shape[1] < 3:
        return np.full(len(full), np.nan)
    ranks = [stats.rankdata(counts, axis=1) for counts in (full, low)]
    first, second = (rank - rank.mean(axis=1, keepdims=True) for rank in ranks)
    size = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    return divide((first * second).sum(axis=1), size)


def _jensen_shannon(full: Matrix, low: Matrix) -> Vector:
    """Jensen-Shannon divergence of the name frequencies in bits."""
    empty = (full.sum(axis=1) == 0) | (low.sum(axis=1) == 0)
    first, second = (
        counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) for counts in (full, low)
    )
    middle = (first + second) / 2
    entropies = [stats.entropy(share, base=2, axis=1) for share in (middle, first, second)]
    return np.where(empty, np.nan, entropies[0] - (entropies[1] + entropies[2]) / 2)


def vocabulary_rows(contrasts: Sequence["Contrast"]) -> list[Row]:
    """Rows of ``vocabulary``: names of the arms without repair, most frequent first."""
    rows: list[Row] = []
    for contrast in contrasts:
        if contrast.low.repair != "none":
            continue
        calls = {
            arm: fake_calls(each) for arm, each in (("full", contrast.full), ("low", contrast.low))
        }
        counts = {arm: frame["name"].value_counts() for arm, frame in calls.items()}
        kinds = dict(pd.concat(list(calls.values()))[["name", "sub_kind"]].to_numpy())
        own = [
            {
                **{key: value for key, value in contrast.key.items() if key != "repair"},
                "name": name,
                "sub_kind": kind,
                "events_full": int(counts["full"].get(name, 0)),
                "events_low": int(counts["low"].get(name, 0)),
                "new": name not in counts["full"],
            }
            for name, kind in kinds.items()
        ]
        rows += sorted(own, key=lambda row: (-row["events_low"], -row["events_full"], row["name"]))
    return rows

"""Statistics of a study: every table, from its frames of episodes and calls.

The unit is the task. Task ids are drawn once per study and the draw serves every arm, budget
and metric; all trials of a task travel together (``_resampling``). ``COLUMNS`` is the reference
of what :func:`analyse` returns. The methods were chosen by the coverage simulation
(``python -m flatscore.statistics.simulation``), whose table is ``resources/coverage.tsv``.

This module stays light: pandas and scipy are imported when something is computed.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flatscore.errors import InputError
from flatscore.statistics._columns import COLUMNS
from flatscore.statistics._tables import Tables, read_tables

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "Settings", "Tables", "analyse", "published", "read_tables"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a study is analysed. Nothing here changes an episode.

    Parameters
    ----------
    seed
        Seed of every draw.
    full_precision
        The precision that every comparison starts from.
    resamples
        Task-level bootstrap resamples, and label swaps of the permutation tests.
    confidence
        Level of the intervals; tests use ``1 - confidence``.
    margin
        Equivalence margin of the score, as a share (0.075 is 7.5 points).
    k
        The pre-specified K of the gap widening S(K) against S(largest K).
    """

    seed: int
    full_precision: str = "bf16"
    resamples: int = 5000
    confidence: float = 0.95
    margin: float = 0.075
    k: int = 2

    def __post_init__(self) -> None:
        for key, good, expected in (
            ("resamples", self.resamples >= 200, "at least 200"),
            ("confidence", 0.5 < self.confidence < 1, "between 0.5 and 1"),
            ("margin", 0 < self.margin < 1, "between 0 and 1"),
            ("k", self.k >= 0, "at least 0"),
            ("seed", self.seed >= 0, "at least 0"),
        ):
            if not good:
                raise InputError(
                    f"statistics.{key}", f"is {getattr(self, key)}.", f"Give a value {expected}."
                )


def analyse(episodes: "pd.DataFrame", calls: "pd.DataFrame", *, settings: Settings) -> Tables:
    """Compute every table of a study.

    Parameters
    ----------
    episodes
        One row an episode: model, domain, precision, repair, budget, task, trial, success,
        termination, errors, agent_calls, interceptions, status, reason, file (as the stage
        ``calls`` writes them).
    calls
        One row a tool call with its channel; may be empty.
    settings
        See :class:`Settings`.

    Returns
    -------
    Tables
        The tables of ``COLUMNS``, all of them, empty ones with their columns.

    Raises
    ------
    InputError
        When a column is missing, a (task, trial) occurs twice in one results file, or two arms
        that must be compared share no budget or no task.
    """
    from flatscore.statistics._study import analyse_study

    return analyse_study(episodes, calls, settings=settings)


def published() -> "pd.DataFrame":
    """Return the published figures that the report puts beside the measured ones.

    Columns: domain, model, precision, quantity, metric (the metric of ``contrasts`` that
    measures the same, where there is one), full, low, estimate, repaired, inferred (follows from
    the others by arithmetic). Source: arXiv 2607.27275.
    """
    from flatscore.statistics._published import published_figures

    return published_figures()

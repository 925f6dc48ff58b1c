"""All tables of a study, in order."""

import pandas as pd
from threadpoolctl import threadpool_limits

from flatscore.statistics import Settings
from flatscore.statistics._arms import Row, read_arms
from flatscore.statistics._budgets import budget_rows, live_rows
from flatscore.statistics._columns import COLUMNS
from flatscore.statistics._contrasts import (
    build_contrasts,
    contrast_rows,
    noise_rows,
    propensity_rows,
)
from flatscore.statistics._exclusions import exclusions
from flatscore.statistics._power import power_rows
from flatscore.statistics._repair import repair_rows
from flatscore.statistics._single import censoring, channels, pass_hat_table, positions, scores
from flatscore.statistics._tables import Tables
from flatscore.statistics._verdicts import verdict_rows
from flatscore.statistics._vocabulary import vocabulary_rows


def analyse_study(episodes: pd.DataFrame, calls: pd.DataFrame, *, settings: Settings) -> Tables:
    """See :func:`flatscore.statistics.analyse`."""
    # One thread: the same sums on any machine, and many small products are faster so.
    with threadpool_limits(limits=1, user_api="blas"):
        return _analyse(episodes, calls, settings)


def _analyse(episodes: pd.DataFrame, calls: pd.DataFrame, settings: Settings) -> Tables:
    arms = read_arms(
        episodes,
        calls,
        full_precision=settings.full_precision,
        resamples=settings.resamples,
        seed=settings.seed,
    )
    level = {"confidence": settings.confidence}
    contrasts = build_contrasts(arms, k=settings.k, **level)
    noise = _frame("noise", noise_rows(arms, k=settings.k, **level))
    alpha = 1 - settings.confidence
    budgets, widest = budget_rows(contrasts, k=settings.k, **level)
    rows = {
        "scores": scores(arms, **level),
        "channels": channels(arms, **level),
        "contrasts": contrast_rows(contrasts, noise, arms, margin=settings.margin, alpha=alpha),
        "budgets": budgets,
        "live_budgets": live_rows(arms),
        "vocabulary": vocabulary_rows(contrasts),
        "repair": repair_rows(arms, **level),
        "power": power_rows(contrasts, k=settings.k, margin=settings.margin, **level),
        "exclusions": exclusions(arms),
        "propensity": propensity_rows(contrasts, **level),
        "positions": positions(arms, **level),
        "pass_hat_k": pass_hat_table(arms, **level),
        "verdicts": verdict_rows(arms, contrasts, widest, settings),
        "censoring": censoring(arms, **level),
    }
    return Tables({name: _frame(name, found) for name, found in rows.items()} | {"noise": noise})


def _frame(name: str, rows: list[Row]) -> pd.DataFrame:
    """Return the rows with the table's columns; counts stay whole numbers, '' is missing."""
    frame = pd.DataFrame(rows, columns=list(COLUMNS[name]))
    frame = frame.replace("", None) if "note" in frame else frame
    for column in frame:
        if frame[column].dtype == float and column in WHOLE:
            frame[column] = frame[column].astype("Int64")
    return frame


WHOLE = {
    "events",
    "user_side",
    "other_domain",
    "near_miss",
    "invented",
    "empty",
    "k_star",
    "successes",
    "agent_calls",
    "user_errors",
    "interceptions",
    "counted_successes",
    "live_successes",
    "disagreements",
}

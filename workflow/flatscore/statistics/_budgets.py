"""S(K) at every K, its gap between precisions, and live tight budgets beside the counted ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flatscore.statistics._arms import Arm, Arms, Row
from flatscore.statistics._contrasts import Contrast
from flatscore.statistics._resampling import (
    Draw,
    Matrix,
    Rows,
    divide,
    jackknife_error,
    simultaneous_quantile,
    t_quantile,
)


@dataclass(frozen=True)
class Curve:
    """A statistic at every K with its pointwise interval and its simultaneous band."""

    value: Matrix
    low: Matrix
    high: Matrix
    band_low: Matrix
    band_high: Matrix


def curve(rows: Matrix, draw: Draw, *, confidence: float, bounds: tuple[float, float]) -> Curve:
    """Estimate a curve, `rows` being rows x K; no interval where no task differs from another."""
    error = jackknife_error(rows, draw) if draw.size > 1 else np.full(rows.shape[1], np.nan)
    error = np.where(error < 1e-10, np.nan, error)
    value = rows[0]
    if np.isnan(error).all():
        return Curve(value, error, error, error, error)
    point = t_quantile(confidence, draw) * error
    band = simultaneous_quantile(rows, draw, confidence=confidence) * error
    ends = (value - point, value + point, value - band, value + band)
    return Curve(value, *(np.clip(end, *bounds) for end in ends))


def survival(rows: Rows, budget: int) -> Matrix:
    """Return S(K) on every row, rows x (budget + 1)."""
    survivors = np.column_stack([rows[f"survive_{k}"] for k in range(budget + 1)])
    return divide(survivors, rows["episodes"][:, None])


def budget_rows(
    contrasts: Sequence[Contrast], *, k: int, confidence: float
) -> tuple[list[Row], dict[tuple[str, ...], int | None]]:
    """Return the rows of ``budgets`` and, by :attr:`Contrast.where`, the largest K that widens.

    That K is the largest whose difference in differences lies above 0 in the simultaneous band,
    None if there is none.
    """
    rows: list[Row] = []
    widest: dict[tuple[str, ...], int | None] = {}
    for contrast in contrasts:
        draw, budget = contrast.pair.draw, contrast.full.budget
        data = slice(0, 1 + draw.size + draw.resamples)
        sides = [
            {name: vector[data] for name, vector in side.items()}
            for side in (contrast.pair.rows_full, contrast.pair.rows_low)
        ]
        full, low = (survival(side, budget) for side in sides)
        curves = {
            "s_full": curve(full, draw, confidence=confidence, bounds=(0, 1)),
            "s_low": curve(low, draw, confidence=confidence, bounds=(0, 1)),
            "gap": curve(full - low, draw, confidence=confidence, bounds=(-1, 1)),
        }
        gap = full - low
        curves["did"] = curve(gap - gap[:, -1:], draw, confidence=confidence, bounds=(-2, 2))
        above = np.flatnonzero(curves["did"].band_low > 0)
        widest[contrast.where] = int(above.max()) if len(above) else None
        for point in range(budget + 1):
            row: Row = {
                **contrast.key,
                "k": point,
                "h_budget": point + 1,
                "prespecified": point == k,
            }
            rows.append(row | _counts(sides, point) | _point(curves, point))
    return rows, widest


def _counts(sides: Sequence[Rows], point: int) -> Row:
    row: Row = {}
    for name, side in zip(("full", "low"), sides, strict=True):
        row[f"episodes_{name}"] = round(side["episodes"][0])
        row[f"survivors_{name}"] = round(side[f"survive_{point}"][0])
    return row


def _point(curves: dict[str, Curve], point: int) -> Row:
    row: Row = {name: found.value[point] for name, found in curves.items()}
    for name, found in curves.items():
        prefix = "ci" if name == "gap" else name
        row |= {f"{prefix}_low": found.low[point], f"{prefix}_high": found.high[point]}
        row |= {f"{name}_band_low": found.band_low[point]}
        row |= {f"{name}_band_high": found.band_high[point]}
    constant = np.isnan(curves["gap"].low[point])
    return row | {"note": "the same in every task: no interval" if constant else ""}


def live_rows(arms: Arms) -> list[Row]:
    """Rows of ``live_budgets``: H(B) counted from the largest budget beside the run at B.

    On a deterministic engine the two agree episode by episode: the agent is never told its
    budget.
    """
    rows: list[Row] = []
    for live in arms.arms:
        counted = arms.find(live.model, live.domain, live.precision, live.repair)
        if counted is not None and counted.budget > live.budget:
            rows.append(_live(live, counted))
    return rows


def _live(live: Arm, counted: Arm) -> Row:
    slot = ["task", "trial"]
    frame = live.counted.merge(counted.counted, on=slot, suffixes=("_live", "_counted"))
    survives = frame["success_counted"] & (frame["errors_counted"] < live.budget)
    wrong = int((survives != frame["success_live"]).sum())
    row: Row = {**live.key, "largest_budget": counted.budget, "episodes": len(frame)}
    if not len(frame):
        return row
    shares = {"counted": float(survives.mean()), "live": float(frame["success_live"].mean())}
    return row | {
        "counted_successes": int(survives.sum()),
        "live_successes": int(frame["success_live"].sum()),
        **shares,
        "difference": shares["live"] - shares["counted"],
        "disagreements": wrong,
        "equal": wrong == 0,
    }

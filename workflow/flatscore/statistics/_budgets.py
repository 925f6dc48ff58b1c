"""S(K) at every K, its gap between precisions, and live tight budgets beside the counted ones."""

from collections.abc import Sequence

import numpy as np

from flatscore.statistics._arms import Arm, Arms, Row
from flatscore.statistics._contrasts import Contrast
from flatscore.statistics._curves import Curve, estimate_curve
from flatscore.statistics._metrics import Pair, hidden_share, surviving_share


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
        pair, budget = contrast.pair, contrast.full.budget
        curves = _curves(pair, budget, confidence)
        above = np.flatnonzero(curves["did"].band_low > 0)
        widest[contrast.where] = int(above.max()) if len(above) else None
        for point in range(budget + 1):
            row: Row = {
                **contrast.key,
                "k": point,
                "h_budget": point + 1,
                "prespecified": point == k,
            }
            rows.append(row | _counts(pair, point) | _point(curves, point, budget))
    return rows, widest


def _curves(pair: Pair, budget: int, confidence: float) -> dict[str, Curve]:
    """Return S of both arms, its gap (full minus low) and what the budget hides of it."""
    survivals = [surviving_share(k) for k in range(budget + 1)]
    hidden = [hidden_share(k, budget) for k in range(budget + 1)]
    points = {
        "s_full": [[each.term(pair.full, 1.0)] for each in survivals],
        "s_low": [[each.term(pair.low, 1.0)] for each in survivals],
        "gap": [[each.term(pair.full, 1.0), each.term(pair.low, -1.0)] for each in survivals],
        "did": [pair.terms(each) for each in hidden],
    }
    ends = {"s_full": (0.0, 1.0), "s_low": (0.0, 1.0), "gap": (-1.0, 1.0), "did": (-1.0, 1.0)}
    return {
        name: estimate_curve(
            terms, pair.draw, confidence=confidence, low=ends[name][0], high=ends[name][1]
        )
        for name, terms in points.items()
    }


def _counts(pair: Pair, point: int) -> Row:
    row: Row = {}
    for name, sums in (("full", pair.full), ("low", pair.low)):
        row[f"episodes_{name}"] = int(sums["episodes"].sum())
        row[f"survivors_{name}"] = int(sums[f"survive_{point}"].sum())
    return row


def _point(curves: dict[str, Curve], point: int, budget: int) -> Row:
    row: Row = {name: found.value[point] for name, found in curves.items()}
    for name, found in curves.items():
        if name == "did" and point >= budget - 1:
            continue  # 0 by construction: a success has fewer failed calls than the budget
        prefix = "ci" if name == "gap" else name
        row |= {f"{prefix}_low": found.low[point], f"{prefix}_high": found.high[point]}
        row |= {f"{name}_band_low": found.band_low[point]}
        row |= {f"{name}_band_high": found.band_high[point]}
    return row | {"note": "did is 0 by construction" if point >= budget - 1 else ""}


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

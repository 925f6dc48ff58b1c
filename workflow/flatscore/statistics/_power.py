"""Equivalence of the scores, and what a comparison could have shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from flatscore.statistics._arms import Row
from flatscore.statistics._draw import Draw, t_quantile
from flatscore.statistics._resampling import Estimate, few_bounds

if TYPE_CHECKING:
    from flatscore.statistics._contrasts import Contrast


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests of a score difference against ±margin."""

    low: float = np.nan  # 90 % interval
    high: float = np.nan
    p_value: float = np.nan
    power: float = np.nan
    smallest_margin: float = np.nan
    equivalent: bool = False


def equivalence(found: Estimate, draw: Draw, margin: float) -> Equivalence:
    """Test a difference for equivalence at the 5 % level (90 % interval inside ±margin).

    The power is that at a true difference of 0, from the observed error. Where few tasks differ
    the exact bounds take the place of the interval; power and p-value are then missing.
    """
    if found.few is not None:
        low, high = few_bounds(found.few, draw, confidence=0.90)
        reach = max(-low, high)
        return Equivalence(low, high, smallest_margin=reach, equivalent=reach < margin)
    if np.isnan(found.error):
        return Equivalence()
    error, degrees = found.error, draw.size - 1
    quantile = t_quantile(0.90, draw)
    low, high = (found.value + side * quantile * error for side in (-1, 1))
    p_value = stats.t.sf((margin - abs(found.value)) / error, degrees)
    power = max(0.0, 2 * stats.t.cdf(margin / error - quantile, degrees) - 1)
    smallest = abs(found.value) + quantile * error
    equivalent = -margin < low and high < margin
    return Equivalence(low, high, float(p_value), float(power), smallest, equivalent)


def detectable(found: Estimate, draw: Draw, confidence: float, power: float = 0.8) -> float:
    """Return the true difference that such data would show as significant with `power`.

    For a ratio it is on the log scale. Uses the observed error and two t quantiles.
    """
    if np.isnan(found.error):
        return float("nan")
    quantile = t_quantile(confidence, draw) + float(stats.t.ppf(power, draw.size - 1))
    return quantile * found.error


def power_rows(
    contrasts: Sequence["Contrast"], *, k: int, margin: float, confidence: float
) -> list[Row]:
    """Rows of ``power``."""
    rows: list[Row] = []
    for contrast in contrasts:
        draw, found = contrast.pair.draw, contrast.found
        score = found["score"].estimate
        tested = equivalence(score, draw, margin)
        ratio = detectable(found["tool_name_count_ratio"].estimate, draw, confidence)
        rows.append(
            {
                **contrast.key,
                "margin": margin,
                "estimate": score.value,
                "standard_error": score.error,
                "ci90_low": tested.low,
                "ci90_high": tested.high,
                "p_equivalence": tested.p_value,
                "power": tested.power,
                "smallest_margin": tested.smallest_margin,
                "detectable": detectable(score, draw, confidence),
                "detectable_widening": detectable(
                    found[f"gap_widening_k{k}"].estimate, draw, confidence
                ),
                "detectable_ratio": float(np.exp(ratio)),
                "tasks": draw.size,
                "trials": min(contrast.full.trials, contrast.low.trials),
                "note": score.note,
            }
        )
    return rows

"""A statistic at every K, with pointwise intervals and a simultaneous band."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flatscore.statistics._draw import Draw, Vector
from flatscore.statistics._resampling import (
    Term,
    deviation_quantile,
    estimate_with_deviations,
    few_bounds,
)


@dataclass(frozen=True)
class Curve:
    """A statistic at several points: pointwise intervals and a simultaneous band."""

    value: Vector
    low: Vector
    high: Vector
    band_low: Vector
    band_high: Vector


def estimate_curve(
    points: Sequence[Sequence[Term]], draw: Draw, *, confidence: float, low: float, high: float
) -> Curve:
    """Estimate shares or their differences at several points, as :func:`estimate` with `unit`.

    The band's factor is the quantile of the largest absolute studentized deviation over the
    points; points with few differing tasks get exact bounds, in the band at Bonferroni's level.
    `low` and `high` clip the ends.
    """
    both = [estimate_with_deviations(terms, draw, confidence, unit=True) for terms in points]
    found = [each for each, _ in both]
    values = np.array([each.value for each in found])
    ends = np.array([[each.low, each.high] for each in found])
    largest = np.fmax.reduce([deviation for _, deviation in both])
    band = ends.copy()
    factor = deviation_quantile(largest, confidence)
    for index, each in enumerate(found):
        if not np.isnan(each.error):
            half = max(factor * each.error, ends[index, 1] - each.value)
            band[index] = each.value - half, each.value + half
        elif each.few is not None:
            level = 1 - (1 - confidence) / len(found)
            band[index] = few_bounds(each.few, draw, confidence=level)
    clipped = np.clip(np.column_stack([ends, band]), low, high)
    return Curve(values, *clipped.T)

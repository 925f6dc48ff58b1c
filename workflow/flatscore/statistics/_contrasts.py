"""Comparisons with full precision: contrasts, propensity, power, noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from flatscore.errors import InputError
from flatscore.statistics._arms import Arm, Arms, Row
from flatscore.statistics._exclusions import worst_and_best
from flatscore.statistics._metrics import Comparison, Pair, compare, metrics, pair_arms
from flatscore.statistics._power import Equivalence, equivalence
from flatscore.statistics._resampling import Estimate, Term, estimate, holm
from flatscore.statistics._single import share, unseen_share
from flatscore.statistics._vocabulary import vocabulary_metrics


@dataclass(frozen=True)
class Contrast:
    """A low-precision arm with its full-precision baseline and every metric of the two."""

    full: Arm
    low: Arm
    pair: Pair
    found: dict[str, Comparison]

    @property
    def where(self) -> tuple[str, ...]:
        """Model, domain, low precision and repair."""
        return (self.low.model, self.low.domain, self.low.precision, self.low.repair)

    @property
    def key(self) -> Row:
        """Identifying columns of a comparison's row."""
        arm = self.low
        cell = {"model": arm.model, "domain": arm.domain, "precision": arm.precision}
        return {**cell, "baseline": self.full.precision, "repair": arm.repair}


def build_contrasts(arms: Arms, *, k: int, confidence: float) -> list[Contrast]:
    """Compare every low-precision arm with full precision at the same repair.

    Raises
    ------
    InputError
        When the two were recorded at different budgets or have no task in common.
    """
    contrasts = []
    for low in arms.largest():
        full = arms.find(low.model, low.domain, arms.full_precision, low.repair)
        if full is None or low.precision == full.precision or not (full.tasks and low.tasks):
            continue
        contrasts.append(_contrast(full, low, arms, k, confidence))
    return contrasts


def _contrast(full: Arm, low: Arm, arms: Arms, k: int, confidence: float) -> Contrast:
    place = f"{low.model} on {low.domain}"
    if full.budget != low.budget:
        raise InputError(
            place,
            f"{full.precision} was recorded at max_errors={full.budget} and {low.precision} at "
            f"{low.budget}.",
            "Compare runs of the same error budget.",
        )
    if not set(full.tasks) & set(low.tasks):
        raise InputError(
            place,
            f"{full.precision} and {low.precision} have no task in common.",
            "Compare runs over the same tasks.",
        )
    pair = pair_arms(full, low, arms)
    return Contrast(full, low, pair, compare_all(full, low, pair, k=k, confidence=confidence))


def compare_all(
    full: Arm, low: Arm, pair: Pair, *, k: int, confidence: float
) -> dict[str, Comparison]:
    """Compare two arms in every metric."""
    found = [
        compare(pair, metric, confidence=confidence) for metric in metrics(k=k, budget=full.budget)
    ]
    found += vocabulary_metrics(full, low, pair.draw, confidence=confidence)
    return {comparison.metric: comparison for comparison in found}


def interval(found: Estimate) -> Row:
    """Return the columns that estimates have in common."""
    return {"ci_low": found.low, "ci_high": found.high, "p_value": found.p_value}


def contrast_rows(
    contrasts: Sequence[Contrast], noise: pd.DataFrame, arms: Arms, *, margin: float, alpha: float
) -> list[Row]:
    """Rows of ``contrasts``, Holm-adjusted over all comparisons of one metric and repair."""
    rows: list[Row] = []
    for contrast in contrasts:
        own = _noise_of(contrast.full, noise)
        for name, comparison in contrast.found.items():
            found = comparison.estimate
            notes = [note for note in (found.note, contrast.pair.note) if note]
            row: Row = {
                **contrast.key,
                "metric": name,
                "family": f"{name}, repair {contrast.low.repair}",
                "full": comparison.full,
                "low": comparison.low,
                "estimate": found.value,
                **interval(found),
                "boot_low": found.boot_low,
                "boot_high": found.boot_high,
                "note": "; ".join(notes),
            }
            if name == "score":
                row |= _bounds(contrast, arms)
                row["ci90"] = equivalence(found, contrast.pair.draw, margin)
            rows.append(row | own.get(name, {}))
    for family in dict.fromkeys(row["family"] for row in rows):
        members = [row for row in rows if row["family"] == family]
        adjusted = holm([row["p_value"] for row in members])
        for row, p_holm in zip(members, adjusted, strict=True):
            row["p_holm"] = p_holm
            row["verdict"] = _verdict(row, alpha)
    return rows


def _noise_of(full: Arm, noise: pd.DataFrame) -> dict[str, Row]:
    """Return the noise columns by metric; a second run counts more than two halves of one."""
    same = np.logical_and.reduce([noise[name] == value for name, value in full.key.items()])
    found: dict[str, Row] = {}
    for kind in ("split_half", "rerun"):
        part = noise[same & (noise["kind"] == kind)].drop_duplicates("metric")
        for metric, value in zip(part["metric"], part["estimate"], strict=True):
            found[metric] = {"noise": value, "noise_kind": kind}
    return found


def _bounds(contrast: Contrast, arms: Arms) -> Row:
    (worst_full, best_full), (worst_low, best_low) = (
        worst_and_best(arm, arms) for arm in (contrast.full, contrast.low)
    )
    return {"bound_low": worst_low - best_full, "bound_high": best_low - worst_full}


def _verdict(row: Row, alpha: float) -> str:
    tested: Equivalence | None = row.pop("ci90", None)
    if np.isnan(row["p_holm"]):
        return "not estimable"
    different = row["p_holm"] < alpha
    if tested is not None and tested.equivalent:
        return "both" if different else "equivalent"
    return "different" if different else "inconclusive"


def propensity_rows(contrasts: Sequence[Contrast], *, confidence: float) -> list[Row]:
    """Rows of ``propensity``: full-precision rate of fake-tool calls against amplification."""
    rows: list[Row] = []
    for contrast in contrasts:
        draw, full, low = contrast.pair.draw, contrast.pair.full, contrast.pair.low
        fake = full["tool_name"]
        per_call = share(fake, full["calls"], draw, confidence=confidence)
        episode = [Term(1.0, fake, full["episodes"])]
        per_episode = estimate(episode, draw, confidence=confidence, bounds=(0.0, np.inf))
        ratio = contrast.found["tool_name_count_ratio"]
        difference = contrast.found["tool_name_events_per_episode"].estimate
        note = ratio.estimate.note
        if not fake.sum():
            bound = unseen_share(draw, confidence=confidence)
            note += f"; a habit in more than {100 * bound:.1f} % of tasks would have been seen"
        rows.append(
            {
                **contrast.key,
                "gate": "open" if fake.sum() else "closed",
                "events_full": int(fake.sum()),
                "rate_full": per_call.value,
                "rate_full_low": per_call.low,
                "rate_full_high": per_call.high,
                "per_episode_full": per_episode.value,
                "per_episode_full_low": per_episode.low,
                "per_episode_full_high": per_episode.high,
                "events_low": int(low["tool_name"].sum()),
                "rate_low": contrast.found["tool_name_rate"].low,
                "ratio": ratio.estimate.value,
                "ratio_low": ratio.estimate.low,
                "ratio_high": ratio.estimate.high,
                "difference": difference.value,
                "difference_low": difference.low,
                "difference_high": difference.high,
                "note": note,
            }
        )
    return rows


def noise_rows(arms: Arms, *, k: int, confidence: float) -> list[Row]:
    """Rows of ``noise``: an arm against its second run, and its trials split in two."""
    pairs = [(first, second, "rerun") for first, second in arms.reruns]
    for arm in arms.largest():
        trials = sorted(arm.counted["trial"].unique())
        half = len(trials) // 2
        if half:
            first, second = (
                arm.restricted(arm.episodes["trial"].isin(part))
                for part in (trials[:half], trials[half : 2 * half])
            )
            pairs.append((first, second, "split_half"))
    rows: list[Row] = []
    for first, second, kind in pairs:
        if not set(first.tasks) & set(second.tasks):
            continue
        pair = pair_arms(first, second, arms)
        for comparison in compare_all(first, second, pair, k=k, confidence=confidence).values():
            found = comparison.estimate
            row: Row = {**first.key, "kind": kind, "metric": comparison.metric}
            row |= {"first": comparison.full, "second": comparison.low}
            row |= {"estimate": found.value, **interval(found), "note": found.note}
            rows.append(row)
    return rows

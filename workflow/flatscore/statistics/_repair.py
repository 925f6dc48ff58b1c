"""What a repair changes, arm by arm, and whether it changes more at low precision."""

import numpy as np

from flatscore.errors import InputError
from flatscore.statistics._arms import Arm, Arms, Row
from flatscore.statistics._metrics import pair_arms
from flatscore.statistics._resampling import Estimate, Vector, divide, holm, summarise, weigh_pair


def repair_rows(arms: Arms, *, confidence: float) -> list[Row]:
    """Rows of ``repair``, Holm-adjusted over all of them."""
    rows: list[Row] = []
    for repaired in arms.largest():
        plain = arms.find(repaired.model, repaired.domain, repaired.precision, "none")
        if repaired.repair == "none" or plain is None or not (plain.tasks and repaired.tasks):
            continue
        _same_budget(plain, repaired)
        rows.append(_repair(plain, repaired, arms, confidence))
    adjusted = holm([row["p_value"] for row in rows])
    return [row | {"p_holm": p} for row, p in zip(rows, adjusted, strict=True)]


def _same_budget(plain: Arm, repaired: Arm) -> None:
    place = f"{plain.model} {plain.precision} on {plain.domain}"
    if plain.budget != repaired.budget:
        raise InputError(
            place,
            f"was recorded at max_errors={plain.budget} without repair and "
            f"{repaired.budget} with {repaired.repair}.",
            "Compare runs of the same error budget.",
        )
    if not set(plain.tasks) & set(repaired.tasks):
        raise InputError(
            place,
            f"has no task in common with and without {repaired.repair} repair.",
            "Compare runs over the same tasks.",
        )


def _repair(plain: Arm, repaired: Arm, arms: Arms, confidence: float) -> Row:
    pair = pair_arms(plain, repaired, arms)
    scores = [divide(rows["success"], rows["episodes"]) for rows in (pair.rows_full, pair.rows_low)]
    found = summarise(scores[1] - scores[0], pair.draw, confidence=confidence)
    before, after = ({n: v[0] for n, v in r.items()} for r in (pair.rows_full, pair.rows_low))
    row: Row = dict(repaired.key)
    row |= {
        "episodes": round(before["episodes"]),
        "successes": round(before["success"]),
        "score": float(scores[0][0]),
        "episodes_repaired": round(after["episodes"]),
        "successes_repaired": round(after["success"]),
        "score_repaired": float(scores[1][0]),
        "estimate": found.value,
        "ci_low": found.low,
        "ci_high": found.high,
        "p_value": found.p_value,
        "events": round(before["tool_name"]),
        "events_repaired": round(after["tool_name"]),
        "interceptions": round(after["interceptions"]),
    }
    interaction = _interaction(plain, repaired, arms, confidence)
    row |= {
        "interaction": interaction.value,
        "interaction_low": interaction.low,
        "interaction_high": interaction.high,
        "interaction_p": interaction.p_value,
    }
    notes = (found.note, pair.note, interaction.note and f"interaction: {interaction.note}")
    return row | {"note": "; ".join(note for note in notes if note)}


def _interaction(plain: Arm, repaired: Arm, arms: Arms, confidence: float) -> Estimate:
    """Return the effect of the repair at this precision minus that at full precision.

    All four arms are weighed on their common tasks; precision labels are swapped in both the
    arms with and those without repair.
    """
    if plain.precision == arms.full_precision:
        return Estimate()
    base = arms.find(plain.model, plain.domain, arms.full_precision, "none")
    base_repaired = arms.find(plain.model, plain.domain, arms.full_precision, repaired.repair)
    if base is None or base_repaired is None:
        return Estimate(note="full precision has no arm with and without this repair")
    four = (base, plain, base_repaired, repaired)
    tasks = tuple(sorted(set.intersection(*(set(arm.tasks) for arm in four))))
    if not tasks:
        return Estimate(note="the four arms have no task in common")
    draw = arms.draw(tasks)
    sums = [_scored(arm, tasks) for arm in four]
    effects = []
    for first, second in (sums[:2], sums[2:]):
        full, low = weigh_pair(draw, first, second)
        effects.append(
            divide(low["success"], low["episodes"]) - divide(full["success"], full["episodes"])
        )
    return summarise(effects[1] - effects[0], draw, confidence=confidence)


def _scored(arm: Arm, tasks: tuple[str, ...]) -> dict[str, Vector]:
    features = arm.features(tasks)
    return {name: np.asarray(features[name]) for name in ("success", "episodes")}

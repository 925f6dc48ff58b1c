"""What a repair changes, arm by arm, and whether it changes more at low precision."""

from flatscore.errors import InputError
from flatscore.statistics._arms import Arm, Arms, Row
from flatscore.statistics._metrics import metrics, pair_arms
from flatscore.statistics._resampling import Estimate, estimate, holm

SCORE = metrics(k=0, budget=0)[0]


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
    found = estimate(pair.terms(SCORE), pair.draw, confidence=confidence, unit=True)
    before, after = ({name: int(v.sum()) for name, v in s.items()} for s in (pair.full, pair.low))
    row: Row = dict(repaired.key)
    row |= {
        "episodes": before["episodes"],
        "successes": before["success"],
        "score": SCORE.value(pair.full),
        "episodes_repaired": after["episodes"],
        "successes_repaired": after["success"],
        "score_repaired": SCORE.value(pair.low),
        "estimate": found.value,
        "ci_low": found.low,
        "ci_high": found.high,
        "p_value": found.p_value,
        "events": before["tool_name"],
        "events_repaired": after["tool_name"],
        "interceptions": after["interceptions"],
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
    signs = (1.0, -1.0, -1.0, 1.0)
    terms = [SCORE.term(a.features(tasks), sign) for a, sign in zip(four, signs, strict=True)]
    return estimate(terms, arms.draw(tasks), confidence=confidence)

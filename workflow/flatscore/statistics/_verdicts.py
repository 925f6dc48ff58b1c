"""One verdict per cell and low precision, in words a reader can quote.

Damage is tested in each cell by the score, the failures of each agent channel and the gap
widening at the pre-specified K, Holm-adjusted together, so that an undamaged cell is called
damaged in at most ``1 - confidence`` of studies.

damaged and visible
    The score is lower.
damaged but masked
    A channel fails more often or the gap widens, the score is not lower, and either it is
    equivalent within the margin or the widening itself is shown.
unaffected
    None of the tests shows damage, and neither the score nor S(K) at the pre-specified K can be
    lower by the margin (lower end of the 90 % interval).
inconclusive
    Everything else; the sentence says what is open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flatscore.statistics import Settings
from flatscore.statistics._arms import AGENT_CHANNELS, Arms, Row
from flatscore.statistics._contrasts import Contrast
from flatscore.statistics._metrics import compare, surviving_share
from flatscore.statistics._power import detectable, equivalence
from flatscore.statistics._resampling import Estimate, holm
from flatscore.statistics._single import unseen_share

WORDS = {
    "tool_name": "calls to fake tools",
    "arguments": "calls with bad arguments",
    "entity": "calls for records that do not exist",
    "refusal": "calls against policy or state",
    "runtime": "calls that failed otherwise",
    "harness_lost": "unreadable replies",
}


@dataclass(frozen=True)
class Evidence:
    """The tests of one cell at one low precision."""

    contrast: Contrast
    p_holm: Mapping[str, float]
    visible: bool
    channels: tuple[str, ...]  # with more failures
    widens: bool
    equivalent: bool
    harmless: bool  # neither the score nor S(K) can be lower by the margin
    k_star: int | None


def verdict_rows(
    arms: Arms,
    contrasts: Sequence[Contrast],
    widest: Mapping[tuple[str, ...], int | None],
    settings: Settings,
) -> list[Row]:
    """Rows of ``verdicts``; a low precision without a usable baseline is inconclusive."""
    known = {contrast.where: contrast for contrast in contrasts}
    rows: list[Row] = []
    for arm in arms.largest():
        if arm.precision == arms.full_precision or arm.repair != "none":
            continue
        row: Row = {"model": arm.model, "domain": arm.domain, "precision": arm.precision}
        row["baseline"] = arms.full_precision
        where = (arm.model, arm.domain, arm.precision, arm.repair)
        if contrast := known.get(where):
            row |= _row(weigh_evidence(contrast, widest[where], settings), settings)
        else:
            lacking = f"no episodes at {arms.full_precision} and {arm.precision} to compare"
            row |= {"verdict": "inconclusive", "sentence": f"inconclusive: {lacking}"}
        rows.append(row)
    return rows


def weigh_evidence(contrast: Contrast, k_star: int | None, settings: Settings) -> Evidence:
    """Test one cell for damage."""
    found, draw = contrast.found, contrast.pair.draw
    widening = f"gap_widening_k{settings.k}"
    tests = {"score": found["score"].estimate, "widening": found[widening].estimate}
    tests |= {c: found[f"{c}_events_per_episode"].estimate for c in AGENT_CHANNELS}
    # A test without any event cannot reject, so it takes no share of the level.
    values = [
        np.nan if test.constant and not test.value else test.p_value for test in tests.values()
    ]
    p_holm = dict(zip(tests, holm(values), strict=True))
    alpha = 1 - settings.confidence
    shown = {name for name, p in p_holm.items() if p < alpha}
    tight = _tight_score(contrast, settings)
    tested = [equivalence(each, draw, settings.margin) for each in (tests["score"], tight)]
    return Evidence(
        contrast,
        p_holm,
        visible="score" in shown and tests["score"].value < 0,
        channels=tuple(c for c in AGENT_CHANNELS if c in shown and tests[c].value > 0),
        widens="widening" in shown and tests["widening"].value > 0,
        equivalent=tested[0].equivalent,
        harmless=all(each.low > -settings.margin for each in tested),
        k_star=k_star,
    )


def _tight_score(contrast: Contrast, settings: Settings) -> Estimate:
    """Return the difference of S(K) at the pre-specified K, low minus full."""
    metric = surviving_share(min(settings.k, contrast.full.budget))
    return compare(contrast.pair, metric, confidence=settings.confidence).estimate


def _row(evidence: Evidence, settings: Settings) -> Row:
    found = evidence.contrast.found
    score, ratio = found["score"], found["tool_name_count_ratio"].estimate
    widening = found[f"gap_widening_k{settings.k}"].estimate
    verdict = judge(evidence)
    return {
        "verdict": verdict,
        "sentence": f"{verdict}: {_sentence(verdict, evidence, settings)}",
        "score_full": score.full,
        "score_low": score.low,
        "score_difference": score.estimate.value,
        "score_p": evidence.p_holm["score"],
        "damaged_channels": ", ".join(evidence.channels) or None,
        "ratio": ratio.value,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
        "widening": widening.value,
        "widening_low": widening.low,
        "widening_high": widening.high,
        "widening_p": evidence.p_holm["widening"],
        "k_star": evidence.k_star,
    }


def judge(evidence: Evidence) -> str:
    """Return the verdict; see the module for the rules."""
    if evidence.visible:
        return "damaged and visible"
    if (evidence.channels or evidence.widens) and (evidence.equivalent or evidence.widens):
        return "damaged but masked"
    if not evidence.channels and evidence.harmless:
        return "unaffected"
    return "inconclusive"


def _sentence(verdict: str, evidence: Evidence, settings: Settings) -> str:
    """Say what was found; a null in the same manner, with what could have been seen."""
    damage = ", ".join(_change(c, evidence) for c in evidence.channels)
    gap = _gap(evidence, settings)
    if verdict == "damaged and visible":
        parts = [f"score {_score(evidence)}", damage, gap]
    elif verdict == "damaged but masked":
        word = "unchanged" if evidence.equivalent else "not shown to change"
        parts = [", ".join(filter(None, (damage, f"score {word} ({_score(evidence)})"))), gap]
    else:
        open_question = ""
        if verdict == "inconclusive":
            where = "the score or S(K)" if not damage else "the score"
            open_question = f"whether {where} fell by {_points(settings.margin)} is open"
            damage = f"more {damage}" if damage else "no damage shown"
        fake = "" if "tool_name" in evidence.channels else _change("tool_name", evidence)
        parts = [
            damage,
            open_question,
            f"score {_score(evidence)}",
            fake,
            _seen(evidence, settings),
        ]
    return "; ".join(filter(None, parts))


def _score(evidence: Evidence) -> str:
    score = evidence.contrast.found["score"]
    text = f"{100 * score.full:.1f} % to {100 * score.low:.1f} %"
    estimate = score.estimate
    if np.isnan(estimate.low):
        return text
    return f"{text}, difference {100 * estimate.low:+.1f} to {100 * estimate.high:+.1f} points"


def _change(channel: str, evidence: Evidence) -> str:
    """Say how often a channel fails at low precision against full precision."""
    contrast, words = evidence.contrast, WORDS[channel]
    first, second = (int(sums[channel].sum()) for sums in (contrast.pair.full, contrast.pair.low))
    ratio = contrast.found[f"{channel}_count_ratio"].estimate
    if not first and not second:
        bound = unseen_share(contrast.pair.draw, confidence=0.95)
        return f"no {words} at either precision (more than {100 * bound:.1f} % of tasks ruled out)"
    if not first or np.isnan(ratio.low):
        return f"{words} from {first} to {second}"
    return f"{words} ×{ratio.value:.2g} ({ratio.low:.2g} to {ratio.high:.2g})"


def _gap(evidence: Evidence, settings: Settings) -> str:
    widening = evidence.contrast.found[f"gap_widening_k{settings.k}"].estimate
    if evidence.k_star is not None and widening.value > 0:
        return f"the gap appears at K ≤ {evidence.k_star}"
    if evidence.widens:
        return f"the gap widens at K = {settings.k} by {_points(widening.value)}"
    return f"no widening of the gap shown at K = {settings.k}"


def _seen(evidence: Evidence, settings: Settings) -> str:
    """Say what these data would have shown with 80 %."""
    contrast, level = evidence.contrast, settings.confidence
    draw, found = contrast.pair.draw, contrast.found
    score = detectable(found["score"].estimate, draw, level)
    ratio = float(np.exp(detectable(found["tool_name_count_ratio"].estimate, draw, level)))
    parts = [] if np.isnan(score) else [f"a score difference of {_points(score)}"]
    parts += [] if np.isnan(ratio) else [f"a ratio of {ratio:.2g} in calls to fake tools"]
    return f"would have been seen with 80 %: {' and '.join(parts)}" if parts else ""


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"

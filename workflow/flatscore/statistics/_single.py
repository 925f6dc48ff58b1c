"""Tables of one arm at a time: scores, channels, censoring, positions, pass^k."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import comb

import numpy as np

from flatscore.statistics._arms import CHANNELS, Arm, Arms, Row, sum_by_task
from flatscore.statistics._draw import Draw, Sums, Vector
from flatscore.statistics._exclusions import worst_and_best
from flatscore.statistics._resampling import Estimate, Term, estimate

SUB_KINDS = ("user_side", "other_domain", "near_miss", "invented", "empty")
BINS = 5


def share(top: Vector, bottom: Vector, draw: Draw, *, confidence: float) -> Estimate:
    """Estimate a ratio of sums that lies in 0..1 in every task.

    A share that is 0, or 1, in nearly every task gets exact bounds.
    """
    rare = estimate([Term(1.0, bottom - top, bottom)], draw, confidence=confidence, unit=True)
    found = estimate(
        [Term(1.0, top, bottom)], draw, confidence=confidence, unit=True, bounds=(0.0, 1.0)
    )
    if found.few is not None:
        return replace(found, low=0.0)
    if rare.few is not None:
        return replace(found, low=1 - rare.high, high=1.0, note=rare.note.replace("not 0", "not 1"))
    return found


def scores(arms: Arms, *, confidence: float) -> list[Row]:
    """Rows of ``scores``."""
    return [_score(arm, arms, confidence) for arm in arms.arms]


def _score(arm: Arm, arms: Arms, confidence: float) -> Row:
    worst, best = worst_and_best(arm, arms)
    row: Row = {**arm.key, "episodes": len(arm.counted), "tasks": len(arm.tasks)}
    row |= {"trials": arm.trials, "worst": worst, "best": best}
    if not arm.tasks:
        return row | {"note": "every episode was an infrastructure failure"}
    draw = arms.draw(arm.tasks)
    features = arm.features(arm.tasks)
    found = share(features["success"], features["episodes"], draw, confidence=confidence)
    sums = {name: float(vector.sum()) for name, vector in features.items()}
    recovery = sums["recovered"] / sums["recoverable"] if sums["recoverable"] else np.nan
    spent = int((arm.counted["success"] & (arm.counted["errors"] >= arm.budget)).sum())
    fractional = int(arm.counted["reward"].between(0, 1, inclusive="neither").sum())
    notes = [found.note] if found.note else []
    if fractional:
        notes.append(f"{fractional} rewards lie between 0 and 1 and count as failures")
    if spent:
        notes.append(f"{spent} successes reached the error budget: is max_errors recorded rightly?")
    return row | {
        "successes": int(sums["success"]),
        "score": found.value,
        "ci_low": found.low,
        "ci_high": found.high,
        "agent_calls": int(sums["calls"]),
        "calls_per_episode": sums["calls"] / len(arm.counted),
        "errors_per_episode": sums["errors"] / len(arm.counted),
        "user_errors": int(sums["user"]),
        "interceptions": int(sums["interceptions"]),
        "recovery": recovery,
        "note": "; ".join(notes),
    }


def channels(arms: Arms, *, confidence: float) -> list[Row]:
    """Rows of ``channels``: one an arm and channel."""
    rows: list[Row] = []
    for arm in arms.arms:
        if not arm.tasks:
            continue
        draw = arms.draw(arm.tasks)
        sums = arm.features(arm.tasks)
        rows += [_channel(arm, name, sums, draw, confidence) for name in CHANNELS]
    return rows


def _channel(arm: Arm, name: str, sums: Sums, draw: Draw, confidence: float) -> Row:
    calls = sums["user_calls" if name == "user" else "calls"]
    events, recoverable = int(sums[name].sum()), sums[f"{name}_recoverable"].sum()
    found = share(sums[name], calls, draw, confidence=confidence)
    row: Row = {
        **arm.key,
        "channel": name,
        "events": events,
        "calls": int(calls.sum()),
        "rate": found.value,
        "ci_low": found.low,
        "ci_high": found.high,
        "events_per_episode": events / len(arm.counted),
        "tasks": int((sums[name] > 0).sum()),
        "recovery": sums[f"{name}_recovered"].sum() / recoverable if recoverable else np.nan,
        "note": found.note if calls.sum() else "no call",
    }
    if not events:
        row["upper_bound"] = unseen_share(draw, confidence=confidence)
    if name == "tool_name":
        kinds = arm.executed.loc[arm.executed["channel"] == name, "sub_kind"].value_counts()
        row |= {kind: int(kinds.get(kind, 0)) for kind in SUB_KINDS}
    return row


def unseen_share(draw: Draw, *, confidence: float) -> float:
    """Return the share of tasks that may have an event when none of the draw's tasks had one."""
    return float(1 - (1 - confidence) ** (1 / draw.size))


def censoring(arms: Arms, *, confidence: float) -> list[Row]:
    """Rows of ``censoring``."""
    rows: list[Row] = []
    for arm in arms.arms:
        if not arm.tasks:
            continue
        draw = arms.draw(arm.tasks)
        sums = arm.features(arm.tasks)
        found = share(sums["at_cap"], sums["episodes"], draw, confidence=confidence)
        errors = arm.counted["errors"]
        rows.append(
            {
                **arm.key,
                "episodes": len(arm.counted),
                "at_cap": int(sums["at_cap"].sum()),
                "share": found.value,
                "ci_low": found.low,
                "ci_high": found.high,
                "overshoot": int((errors > arm.budget).sum()),
                "largest": int(errors.max()),
            }
        )
    return rows


def positions(arms: Arms, *, confidence: float) -> list[Row]:
    """Rows of ``positions``: where in the conversation the calls fail."""
    rows: list[Row] = []
    for arm in arms.arms:
        if arm.tasks:
            rows += _positions(arm, arms.draw(arm.tasks), confidence)
    return rows


def _positions(arm: Arm, draw: Draw, confidence: float) -> list[Row]:
    frame = arm.executed
    frame = frame[(frame["requestor"] == "assistant") & (frame["channel"] != "harness_lost")]
    frame = frame[frame["position"].notna()]
    place = np.minimum((frame["position"].to_numpy(dtype=float) * BINS).astype(int), BINS - 1)
    rows: list[Row] = []
    for index in range(BINS):
        part = frame[place == index]
        fake = (part["channel"] == "tool_name").to_numpy()
        failed = int(part["error"].astype(bool).sum())
        calls, events = sum_by_task(part, draw.tasks), sum_by_task(part, draw.tasks, fake)
        found = share(events, calls, draw, confidence=confidence)
        rows.append(
            {
                **arm.key,
                "bin": index + 1,
                "bin_low": index / BINS,
                "bin_high": (index + 1) / BINS,
                "calls": len(part),
                "events": int(fake.sum()),
                "rate": found.value,
                "ci_low": found.low,
                "ci_high": found.high,
                "failures": failed,
                "failure_rate": failed / len(part) if len(part) else np.nan,
            }
        )
    return rows


def pass_hat_k(trials: Iterable[float], successes: Iterable[float], k: int) -> Vector:
    """Return C(successes, k) / C(trials, k) of each task, NaN where a task has fewer trials.

    Source: arXiv 2406.12045.
    """
    pairs = zip(trials, successes, strict=True)
    return np.array([comb(int(c), k) / comb(int(n), k) if n >= k else np.nan for n, c in pairs])


def pass_hat_table(arms: Arms, *, confidence: float) -> list[Row]:
    """Rows of ``pass_hat_k``: both conventions for infrastructure failures."""
    rows: list[Row] = []
    for arm in arms.arms:
        tasks = tuple(sorted(arm.episodes["task"].unique()))
        successes = sum_by_task(arm.counted, tasks, arm.counted["success"])
        conventions: Mapping[str, Vector] = {
            "excluded": sum_by_task(arm.counted, tasks),
            "failed": sum_by_task(arm.episodes, tasks),
        }
        most = int(max(conventions["failed"]))
        for convention, trials in conventions.items():
            for k in range(1, most + 1):
                row = {**arm.key, "convention": convention, "k": k, "tasks": len(tasks)}
                values = pass_hat_k(trials, successes, k)
                rows.append(row | _mean_of_tasks(values, arms.draw(tasks), k, confidence))
    return rows


def _mean_of_tasks(values: Vector, draw: Draw, k: int, confidence: float) -> Row:
    if lacking := int(np.isnan(values).sum()):
        return {"note": f"undefined: {lacking} tasks have fewer than {k} trials"}
    found = share(values, np.ones(draw.size), draw, confidence=confidence)
    return {
        "value": found.value,
        "ci_low": found.low,
        "ci_high": found.high,
        "note": found.note,
    }

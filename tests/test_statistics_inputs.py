"""Degenerate studies and bad frames."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flatscore import statistics
from flatscore.errors import InputError
from tests._studies import TASKS, arm, join, random_arm, row, study

SETTINGS = statistics.Settings(seed=7, resamples=1000)


def constant(success: bool, events: int, tasks: int = 20, **key: Any) -> Any:
    shape = (tasks, 2)
    filled = [np.full(shape, value) for value in (success, events, events + 5)]
    return arm(*filled, tasks=TASKS[:tasks], **key)


def one_event(channel: str = "tool_name") -> tuple[pd.DataFrame, pd.DataFrame]:
    events = np.zeros((20, 2), dtype=int)
    events[3, 1] = 4
    success = np.arange(40).reshape(20, 2) % 3 > 0
    key: dict[str, Any] = {"tasks": TASKS[:20], "channel": channel}
    return join(
        arm(success, events, events + 5, **key),
        arm(success, events * 2, events + 9, **key, precision="q"),
    )


def infrastructure(frames: tuple[pd.DataFrame, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    episodes, calls = frames
    lost = episodes["precision"] == "q"
    episodes.loc[lost, ["status", "reason"]] = ["infrastructure", "timeout"]
    episodes.loc[lost, ["success", "reward"]] = [False, np.nan]
    return episodes, calls


DEGENERATE = {
    "all-zero channel": lambda: join(constant(True, 0), constant(True, 0, precision="q")),
    "every episode at the cap": lambda: join(
        constant(False, 10), constant(False, 10, precision="q")
    ),
    "opposite constant scores": lambda: join(constant(True, 1), constant(False, 3, precision="q")),
    "events at low precision only": lambda: join(
        constant(True, 0), constant(True, 2, precision="q")
    ),
    "one non-zero task": one_event,
    "one non-zero task, other channel": lambda: one_event("entity"),
    "one non-zero task, user": lambda: one_event("user"),
    "a single task": lambda: study(tasks=TASKS[:1]),
    "two tasks": lambda: study(tasks=TASKS[:2]),
    "a single trial": lambda: study(trials=1),
    "no calls": lambda: (study()[0], pd.DataFrame()),
    "no low precision": lambda: join(random_arm(np.random.default_rng(0))),
    "no full precision": lambda: join(random_arm(np.random.default_rng(0), precision="q")),
    "budget below the pre-specified K": lambda: study(budget=1),
    "repair at low precision only": lambda: join(
        random_arm(np.random.default_rng(0)),
        random_arm(np.random.default_rng(1), precision="q"),
        random_arm(np.random.default_rng(2), precision="q", repair="reflexive"),
    ),
    "an arm lost to infrastructure": lambda: infrastructure(study()),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_inputs_give_a_result_or_a_reason(case: str, tmp_path: Path) -> None:
    tables = statistics.analyse(*DEGENERATE[case](), settings=SETTINGS)
    tables.write(tmp_path)
    for name, columns in statistics.COLUMNS.items():
        text = (tmp_path / f"{name}.tsv").read_text(encoding="utf-8")
        assert text.splitlines()[0].split("\t") == list(columns)
        words = {word for line in text.splitlines() for word in line.split("\t")}
        assert not words & {"nan", "NaN", "inf", "-inf", "None", "<NA>"}, name
    contrasts = tables["contrasts"]
    silent = contrasts[contrasts["ci_low"].isna() & contrasts["note"].isna()]
    assert not len(silent), silent[["metric", "estimate"]]
    assert set(tables["verdicts"]["verdict"]) <= {
        "unaffected",
        "damaged but masked",
        "damaged and visible",
        "inconclusive",
    }


def test_zero_baseline_has_no_ratio_but_a_difference() -> None:
    frames = DEGENERATE["events at low precision only"]()
    tables = statistics.analyse(*frames, settings=SETTINGS)
    contrasts = tables["contrasts"].set_index("metric")
    assert np.isnan(contrasts.loc["tool_name_count_ratio", "estimate"])
    assert "no event at full precision" in contrasts.loc["tool_name_count_ratio", "note"]
    assert contrasts.loc["tool_name_events_per_episode", "estimate"] == 2
    channel = row(tables["channels"], precision="bf16", channel="tool_name")
    assert channel["upper_bound"] == pytest.approx(1 - 0.05 ** (1 / 20))


def test_missing_baseline_is_said() -> None:
    tables = statistics.analyse(*DEGENERATE["no full precision"](), settings=SETTINGS)
    assert tables["verdicts"].iloc[0]["sentence"] == (
        "inconclusive: no episodes at bf16 and q to compare"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda e, c: (pd.concat([e, e.iloc[:2]]), c),
            r"bf16.json: has 2 episodes twice \(task tas",
        ),
        (lambda e, c: (e.drop(columns="errors"), c), "the frame of episodes: lacks errors"),
        (lambda e, c: (e, c.drop(columns=["channel"])), "the frame of calls: lacks channel"),
        (lambda e, c: (e.assign(budget=pd.NA), c), "has rows without a budget"),
        (
            lambda e, c: (e.assign(budget=e["precision"].map({"bf16": 10, "q": 5})), c),
            "m on telecom: bf16 was recorded at max_errors=10 and q at 5",
        ),
        (
            lambda e, c: (e.assign(task=e["task"] + e["precision"]), c),
            "bf16 and q have no task in common",
        ),
        (
            lambda e, c: (
                e.assign(file=e["precision"], precision="bf16", repair="none"),
                c,
            ),
            "are two runs of one arm, but the calls name no file",
        ),
        (
            lambda e, c: (
                e.assign(
                    repair=e["precision"].map({"bf16": "none", "q": "reflexive"}),
                    budget=e["precision"].map({"bf16": 10, "q": 5}),
                    precision="bf16",
                ),
                c,
            ),
            "max_errors=10 without repair and 5 with reflexive",
        ),
    ],
)
def test_bad_frames_are_refused(change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        statistics.analyse(*change(*study(1)), settings=SETTINGS)


@pytest.mark.parametrize(
    ("key", "value"),
    [("resamples", 10), ("confidence", 1.0), ("margin", 0.0), ("k", -1), ("seed", -1)],
)
def test_bad_settings_are_refused(key: str, value: float) -> None:
    with pytest.raises(InputError, match=f"statistics.{key}: is {value}. Give a value"):
        statistics.Settings(**{"seed": 1, key: value})  # type: ignore[arg-type]

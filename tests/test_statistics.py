"""Tables and verdicts of whole studies, on synthetic frames."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flatscore import statistics
from flatscore.errors import InputError
from tests._studies import NAMES, TASKS, golden_arm, join, random_arm, row, study

SETTINGS = statistics.Settings(seed=7, resamples=1000)


@pytest.fixture(scope="module")
def published() -> statistics.Tables:
    full = golden_arm(304, 260, 649, 3328, noise=1, names=NAMES)
    new = ["reset_everything", "reset_everything", "call_support"]
    low = golden_arm(298, 184, 1646, 4298, noise=2, names=NAMES, fresh=new, precision="int4")
    full_repaired = golden_arm(306, 270, 300, 3000, noise=3, names=NAMES, repair="reflexive")
    low_repaired = golden_arm(
        325, 290, 350, 3100, noise=4, names=NAMES, repair="reflexive", precision="int4"
    )
    frames = join(full, low, full_repaired, low_repaired)
    return statistics.analyse(*frames, settings=statistics.Settings(seed=7))


def test_published_totals_come_back(published: statistics.Tables) -> None:
    scores = published["scores"].set_index(["precision", "repair"])
    assert scores.loc[("bf16", "none"), "successes"] == 304
    assert scores.loc[("int4", "none"), "successes"] == 298
    assert scores.loc[("int4", "reflexive"), "successes"] == 325
    assert scores.loc[("bf16", "none"), "agent_calls"] == 3328
    fake = published["channels"].query("channel == 'tool_name' and repair == 'none'")
    assert list(fake["events"]) == [649, 1646]
    assert list(fake["user_side"]) == [649, 1646]
    assert fake["rate"].round(3).tolist() == [0.195, 0.383]
    assert fake["recovery"].round(2).tolist() == [0.55, 0.55]
    vocabulary = published["vocabulary"]
    assert vocabulary.loc[vocabulary["new"], "events_low"].sum() == 3


def test_published_contrasts_come_back(published: statistics.Tables) -> None:
    contrasts = published["contrasts"].query("repair == 'none'").set_index("metric")
    assert contrasts.loc["score", "estimate"] == pytest.approx(-6 / 456)
    assert contrasts.loc["score", "verdict"] == "equivalent"
    assert contrasts.loc["tool_name_count_ratio", "estimate"] == pytest.approx(1646 / 649)
    assert contrasts.loc["tool_name_rate", "estimate"] == pytest.approx(1646 / 4298 - 649 / 3328)
    assert contrasts.loc["novel_event_share", "estimate"] == pytest.approx(3 / 1646)
    assert contrasts.loc["vocabulary_spearman", "estimate"] >= 0.94
    assert contrasts.loc["gap_widening_k2", "estimate"] == pytest.approx(70 / 456)
    assert contrasts.loc["gap_widening_k2", "verdict"] == "different"


def test_published_gap_by_budget(published: statistics.Tables) -> None:
    budgets = published["budgets"].query("repair == 'none'").set_index("k")
    missing = budgets["survivors_full"] - budgets["survivors_low"]
    assert missing[10] == 6 and missing[9] == 6 and missing[2] == 76
    assert budgets["s_full"].is_monotonic_increasing
    assert budgets.loc[9, "s_full"] == budgets.loc[10, "s_full"]  # a success has fewer than 10
    assert budgets.loc[10, "did"] == 0
    assert (budgets["gap_band_low"] <= budgets["ci_low"]).all()
    assert budgets["prespecified"].sum() == 1 and budgets.loc[2, "h_budget"] == 3


def test_published_verdict(published: statistics.Tables) -> None:
    verdict = published["verdicts"].iloc[0]
    assert verdict["verdict"] == "damaged but masked"
    assert "calls to fake tools ×2.5" in verdict["sentence"]
    assert "score unchanged" in verdict["sentence"]
    assert f"the gap appears at K ≤ {verdict['k_star']}" in verdict["sentence"]


def test_published_repair(published: statistics.Tables) -> None:
    repaired = row(published["repair"], precision="int4")
    assert (repaired["successes"], repaired["successes_repaired"]) == (298, 325)
    assert repaired["estimate"] == pytest.approx(27 / 456)
    assert repaired["p_holm"] >= repaired["p_value"]
    assert repaired["interaction"] == pytest.approx((27 - 2) / 456)
    assert np.isnan(row(published["repair"], precision="bf16")["interaction"])


def test_closed_gate_is_unaffected() -> None:
    frames = join(
        golden_arm(300, 300, 0, 3000, noise=1),
        golden_arm(299, 299, 0, 3000, noise=2, precision="q"),
    )
    tables = statistics.analyse(*frames, settings=SETTINGS)
    verdict = tables["verdicts"].iloc[0]
    assert verdict["verdict"] == "unaffected"
    assert "no calls to fake tools at either precision" in verdict["sentence"]
    assert "would have been seen with 80 %" in verdict["sentence"]
    assert tables["propensity"].iloc[0]["gate"] == "closed"


def test_visible_damage() -> None:
    frames = join(
        golden_arm(304, 260, 649, 3328, noise=1),
        golden_arm(220, 150, 1646, 4298, noise=2, precision="int4"),
    )
    verdict = statistics.analyse(*frames, settings=SETTINGS)["verdicts"].iloc[0]
    assert verdict["verdict"] == "damaged and visible"
    assert "score 66.7 % to 48.2 %" in verdict["sentence"]


def test_little_data_is_inconclusive() -> None:
    rng = np.random.default_rng(3)
    tasks = TASKS[:12]
    frames = join(
        random_arm(rng, trials=1, tasks=tasks),
        random_arm(rng, trials=1, tasks=tasks, precision="q"),
    )
    verdict = statistics.analyse(*frames, settings=SETTINGS)["verdicts"].iloc[0]
    assert verdict["verdict"] == "inconclusive"
    assert "is open" in verdict["sentence"]


def test_same_study_twice_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        statistics.analyse(*study(5), settings=SETTINGS).write(tmp_path / name)
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()


def test_another_model_leaves_intervals_as_they_were() -> None:
    episodes, calls = study(5)
    alone = statistics.analyse(episodes, calls, settings=SETTINGS)["scores"]
    other = [frame.assign(model="z") for frame in study(6)]
    both = statistics.analyse(
        pd.concat([other[0], episodes]), pd.concat([other[1], calls]), settings=SETTINGS
    )["scores"]
    assert both["model"].tolist() == ["z", "z", "m", "m"]
    pd.testing.assert_frame_equal(
        both.query("model == 'm'").reset_index(drop=True), alone, check_dtype=False
    )


def test_tables_read_back(tmp_path: Path) -> None:
    tables = statistics.analyse(*study(5, repair="none"), settings=SETTINGS)
    tables.write(tmp_path)
    again = statistics.read_tables(tmp_path)
    assert again["scores"]["successes"].tolist() == tables["scores"]["successes"].tolist()
    (tmp_path / "power.tsv").unlink()
    with pytest.raises(InputError, match=r"power.tsv: is missing. Run the statistics"):
        statistics.read_tables(tmp_path)


def test_live_budget_is_compared_episode_by_episode() -> None:
    rng = np.random.default_rng(1)
    episodes, calls = random_arm(rng)
    live = episodes.assign(budget=2, success=episodes["success"] & (episodes["errors"] < 2))
    live["errors"] = live["errors"].clip(upper=2)
    tables = statistics.analyse(pd.concat([episodes, live]), calls, settings=SETTINGS)
    found = tables["live_budgets"].iloc[0]
    assert found["equal"] and found["counted"] == found["live"] < 0.6
    assert len(tables["scores"]) == 2
    live.loc[live.index[:3], "success"] = ~live["success"].iloc[:3]
    found = statistics.analyse(pd.concat([episodes, live]), calls, settings=SETTINGS)
    assert found["live_budgets"].iloc[0]["disagreements"] == 3
    assert not found["live_budgets"].iloc[0]["equal"]


def test_exclusions_are_counted_with_worst_case_bounds() -> None:
    episodes, calls = study(2)
    q = episodes.index[episodes["precision"] == "q"]
    episodes.loc[q[:5], "status"] = "infrastructure"
    episodes.loc[q[:5], "reason"] = "timeout"
    episodes.loc[q[5:8], "status"] = "harness_lost"
    episodes.loc[q[5:8], "success"] = False
    episodes = episodes.drop(q[-2:])
    tables = statistics.analyse(episodes, calls, settings=SETTINGS)
    found = tables["exclusions"].set_index("reason")
    assert found["episodes"].to_dict() == {"timeout": 5, "missing": 2, "harness_lost": 3}
    assert found["excluded"].to_dict() == {"timeout": True, "missing": True, "harness_lost": False}
    assert found.loc["missing", "tasks"] == TASKS[-1]
    score = row(tables["scores"], precision="q")
    assert score["episodes"] == 449
    assert score["worst"] == score["successes"] / 456
    assert score["best"] == (score["successes"] + 7) / 456
    contrast = row(tables["contrasts"], metric="score")
    full = row(tables["scores"], precision="bf16")["score"]
    assert contrast["bound_low"] == pytest.approx(score["worst"] - full)
    assert (
        "undefined" in row(tables["pass_hat_k"], precision="q", convention="excluded", k=4)["note"]
    )


def test_unequal_tasks_and_trials_are_flagged() -> None:
    rng = np.random.default_rng(0)
    frames = join(random_arm(rng), random_arm(rng, precision="q", trials=2, tasks=TASKS[4:]))
    note = row(statistics.analyse(*frames, settings=SETTINGS)["contrasts"], metric="score")["note"]
    assert "4 tasks are in one arm only" in note and "trials differ (4 and 2)" in note


def test_impossible_rewards_are_flagged() -> None:
    episodes, calls = study(4)
    episodes.loc[0, ["errors", "success"]] = [10, True]
    episodes.loc[1, ["reward", "success"]] = [0.5, False]
    note = statistics.analyse(episodes, calls, settings=SETTINGS)["scores"]["note"].iloc[0]
    assert "1 successes reached the error budget" in note
    assert "1 rewards lie between 0 and 1" in note


def test_second_run_of_an_arm_is_the_noise_floor() -> None:
    rng = np.random.default_rng(0)
    first, second = random_arm(rng), random_arm(rng)
    low = random_arm(rng, precision="q")
    runs = [
        tuple(frame.assign(file=name) for frame in frames)
        for name, frames in (("a.json", first), ("b.json", second), ("q.json", low))
    ]
    tables = statistics.analyse(*join(*runs), settings=SETTINGS)  # type: ignore[arg-type]
    assert len(tables["scores"]) == 2
    noise = row(tables["noise"], kind="rerun", metric="score")
    scores = [frame["success"].mean() for frame, _ in (first, second)]
    assert noise["estimate"] == pytest.approx(scores[1] - scores[0])
    contrast = row(tables["contrasts"], metric="score")
    assert (contrast["noise"], contrast["noise_kind"]) == (noise["estimate"], "rerun")


def test_published_figures_name_metrics_of_contrasts(published: statistics.Tables) -> None:
    figures = statistics.published()
    assert set(figures["metric"].dropna()) <= set(published["contrasts"]["metric"])
    assert row(figures, quantity="calls to fake tools")["low"] == 1646

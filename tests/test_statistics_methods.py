"""The methods against closed forms and outside implementations."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from flatscore import domains, statistics
from flatscore.statistics import simulation
from flatscore.statistics._curves import estimate_curve
from flatscore.statistics._draw import Draw, divide, jackknife_error, weigh
from flatscore.statistics._power import detectable, equivalence
from flatscore.statistics._resampling import (
    Estimate,
    Term,
    estimate,
    few_bounds,
    holm,
    studentize,
    summarise,
)
from flatscore.statistics._single import pass_hat_k, unseen_share
from tests._studies import TASKS, join, random_arm

SETTINGS = statistics.Settings(seed=7, resamples=1000)


def draw_of(size: int, *, resamples: int = 2000, seed: int = 1) -> Draw:
    return Draw([f"t{index}" for index in range(size)], resamples=resamples, seed=seed)


def test_draw_depends_on_the_tasks_and_the_seed_alone() -> None:
    first, again = draw_of(9), draw_of(9)
    assert (first.weights == again.weights).all() and (first.signs == again.signs).all()
    assert (first.weights != draw_of(9, seed=2).weights).any()
    assert (first.weights[10:].sum(axis=1) == 9).all()
    assert (first.weights[1:10].sum(axis=1) == 8).all()


def test_mean_has_the_interval_of_student() -> None:
    values = np.random.default_rng(0).gamma(2, size=40)
    draw = draw_of(40)
    found = summarise(
        weigh(draw, {"x": values / 40})["x"] * 40 / draw.weights.sum(axis=1), draw, confidence=0.95
    )
    low, high = DescrStatsW(values).tconfint_mean()
    assert (found.value, found.low, found.high) == pytest.approx((values.mean(), low, high))


def test_percentile_interval_is_that_of_scipy() -> None:
    values = np.random.default_rng(0).gamma(2, size=60)
    draw = draw_of(60, resamples=20000)
    rows = weigh(draw, {"x": values})["x"] / draw.weights.sum(axis=1)
    found = summarise(rows, draw, confidence=0.95)
    outside = stats.bootstrap(
        (values,), np.mean, n_resamples=20000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    assert (found.boot_low, found.boot_high) == pytest.approx(tuple(outside), rel=0.01)


def test_label_swap_is_the_paired_permutation_test_of_scipy() -> None:
    rng = np.random.default_rng(4)
    first = rng.gamma(2, size=30)
    second = first + rng.normal(0.2, 0.5, size=30)
    draw = draw_of(30, resamples=20000)
    one = np.ones(30)
    found = estimate([Term(-1, first, one), Term(1, second, one)], draw, confidence=0.95)
    outside = stats.permutation_test(
        (first, second),
        lambda a, b: np.mean(b) - np.mean(a),
        permutation_type="samples",
        n_resamples=20000,
        rng=np.random.default_rng(5),
    )
    assert found.p_value == pytest.approx(outside.pvalue, abs=0.01)


def test_count_ratio_agrees_with_cluster_robust_poisson_regression() -> None:
    rng = np.random.default_rng(8)
    frames = join(random_arm(rng), random_arm(rng, mean=2.4, precision="q"))
    tables = statistics.analyse(*frames, settings=SETTINGS)
    found = tables["contrasts"].set_index("metric").loc["tool_name_count_ratio"]
    episodes = frames[0]
    design = sm.add_constant((episodes["precision"] == "q").astype(float))
    groups = pd.Categorical(episodes["task"]).codes
    fit = sm.GLM(episodes["errors"], design, family=sm.families.Poisson()).fit(
        cov_type="cluster", cov_kwds={"groups": groups}, use_t=True
    )
    assert found["estimate"] == pytest.approx(math.exp(fit.params["precision"]))
    half = stats.t.ppf(0.975, 113) * fit.bse["precision"]
    expected = np.exp(fit.params["precision"] + np.array([-half, half]))
    assert [found["ci_low"], found["ci_high"]] == pytest.approx(expected, rel=0.05)


def test_equivalence_is_that_of_statsmodels() -> None:
    differences = np.random.default_rng(2).normal(0.01, 0.2, size=114)
    draw = draw_of(114)
    estimated = estimate([Term(1, differences, np.ones(114))], draw, confidence=0.95)
    outside = DescrStatsW(differences)
    for margin in (0.02, 0.045, 0.075):
        found = equivalence(estimated, draw, margin)
        p_value, _, _ = outside.ttost_mean(-margin, margin)
        assert found.p_value == pytest.approx(p_value)
        assert found.equivalent == (p_value < 0.05)
        assert (found.low, found.high) == pytest.approx(outside.tconfint_mean(alpha=0.1))
    smallest = equivalence(estimated, draw, 0.075).smallest_margin
    assert outside.ttost_mean(-smallest, smallest)[0] == pytest.approx(0.05)


def test_equivalence_without_variation_rests_on_the_number_of_tasks() -> None:
    same = Estimate(value=0.0, constant=True, few=(0, 0))
    assert equivalence(same, draw_of(114), 0.075).equivalent
    assert not equivalence(same, draw_of(10), 0.075).equivalent


def test_power_of_equivalence_and_detectable_difference() -> None:
    draw = draw_of(114)
    estimated = Estimate(value=0.01, error=0.02)
    rng = np.random.default_rng(1)
    error = 0.02 * np.sqrt(rng.chisquare(113, size=200_000) / 113)
    mean = rng.normal(0, 0.02, size=200_000)
    passed = np.abs(mean) + stats.t.ppf(0.95, 113) * error < 0.05
    assert equivalence(estimated, draw, 0.05).power == pytest.approx(passed.mean(), abs=0.01)
    seen = np.abs(mean + detectable(estimated, draw, 0.95)) > stats.t.ppf(0.975, 113) * error
    assert seen.mean() == pytest.approx(0.8, abs=0.01)


def test_holm_is_that_of_statsmodels() -> None:
    p_values = [0.04, 0.001, 0.9, 0.02]
    outside = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(outside)
    spaced = holm([0.04, float("nan"), 0.001, 0.9, 0.02])
    assert np.isnan(spaced[1]) and np.delete(spaced, 1) == pytest.approx(outside)
    assert holm([]) == []


def test_pass_hat_k_is_that_of_the_benchmark() -> None:
    assert domains  # sets tau2's environment before it is imported
    from tau2.metrics.agent_metrics import pass_hat_k as outside

    for trials in range(1, 6):
        for successes in range(trials + 1):
            for k in range(1, trials + 1):
                assert pass_hat_k([trials], [successes], k)[0] == outside(trials, successes, k)
    assert np.isnan(pass_hat_k([2], [2], 3)[0])


def test_unseen_share_is_the_exact_binomial_bound() -> None:
    exact = stats.binomtest(0, 114, alternative="less").proportion_ci(0.95).high
    assert unseen_share(draw_of(114), confidence=0.95) == pytest.approx(exact)


def test_jackknife_of_a_ratio_is_close_to_its_linearized_error() -> None:
    rng = np.random.default_rng(6)
    bottom = rng.poisson(20, size=114) + 1.0
    top = rng.poisson(bottom / 4).astype(float)
    draw = draw_of(114)
    sums = weigh(draw, {"top": top, "bottom": bottom})
    ratio = top.sum() / bottom.sum()
    residuals = (top - ratio * bottom) / bottom.mean()
    linear = residuals.std(ddof=1) / math.sqrt(114)
    found = jackknife_error(divide(sums["top"], sums["bottom"]), draw)
    assert found == pytest.approx(linear, rel=0.02)


def test_studentized_statistic_is_that_of_a_plain_loop() -> None:
    rng = np.random.default_rng(6)
    bottom = rng.poisson(20, size=30) + 1.0
    top = rng.poisson(bottom / 4) + 1.0
    draw = draw_of(30, resamples=200)
    for log in (False, True):
        term = Term(1, top, bottom)
        rows = divide(draw.weights @ top, draw.weights @ bottom)
        rows = np.log(rows) if log else rows
        expected = []
        for weights in draw.weights[31:]:
            sample = np.repeat(np.arange(30), weights.astype(int))
            x, n = top[sample], bottom[sample]
            ratio = x.sum() / n.sum()
            influence = (x / x.mean() - n / n.mean()) if log else (x - ratio * n) / n.mean()
            error = influence.std(ddof=1) / math.sqrt(30)
            expected.append(((math.log(ratio) if log else ratio) - rows[0]) / error)
        assert studentize([term], rows, draw, log) == pytest.approx(np.array(expected))


def test_interval_is_never_narrower_than_the_t_interval() -> None:
    rng = np.random.default_rng(10)
    draw = draw_of(40)
    for shape in (0.1, 1.0, 10.0):
        term = Term(1, rng.gamma(shape, size=40), np.ones(40))
        found = estimate([term], draw, confidence=0.95)
        half = stats.t.ppf(0.975, 39) * found.error
        assert found.high - found.value >= half - 1e-12
        assert found.high - found.value == pytest.approx(found.value - found.low)


def test_few_differing_tasks_get_exact_bounds() -> None:
    draw = draw_of(114)
    differences = np.zeros(114)
    differences[:3] = 0.25
    term = Term(1, differences, np.ones(114))
    found = estimate([term], draw, confidence=0.95, unit=True)
    none = few_bounds((0, 0), draw, confidence=0.95)[1]
    exact = stats.binomtest(3, 114).proportion_ci(0.95).high
    assert (found.low, found.high) == pytest.approx((-none, exact))
    assert "not 0 in 3 of 114 tasks: exact bounds" in found.note
    unbounded = estimate([term], draw, confidence=0.95)
    assert np.isnan(unbounded.low) and "too few for an interval" in unbounded.note


def test_band_lies_between_pointwise_and_bonferroni() -> None:
    rng = np.random.default_rng(7)
    values, one = rng.uniform(-1, 1, size=(8, 114)), np.ones(114)
    draw = draw_of(114, resamples=5000)
    found = estimate_curve(
        [[Term(1, value, one)] for value in values], draw, confidence=0.95, low=-1, high=1
    )
    wider = (found.band_high - found.value) / (found.high - found.value)
    bonferroni = stats.t.ppf(1 - 0.025 / 8, 113) / stats.t.ppf(0.975, 113)
    assert (wider > 1.1).all() and (wider < bonferroni * 1.05).all()
    single = estimate_curve([[Term(1, values[0], one)]], draw, confidence=0.95, low=-1, high=1)
    assert single.band_high == pytest.approx(single.high)


def test_pooled_rates_and_task_means_are_what_they_say() -> None:
    rng = np.random.default_rng(9)
    episodes, calls = join(random_arm(rng), random_arm(rng, precision="q"))
    found = statistics.analyse(episodes, calls, settings=SETTINGS)["contrasts"]
    found = found.set_index("metric")["estimate"]
    sums = episodes.groupby(["precision", "task"])[["errors", "agent_calls"]].sum()
    rates = sums["errors"] / sums["agent_calls"]
    assert found["tool_name_rate_per_task"] == pytest.approx((rates["q"] - rates["bf16"]).mean())
    pooled = sums.groupby("precision").sum()
    pooled_rates = pooled["errors"] / pooled["agent_calls"]
    assert found["tool_name_rate"] == pytest.approx(pooled_rates["q"] - pooled_rates["bf16"])


def test_simulated_studies_cover_and_do_not_accuse() -> None:
    scenario = next(each for each in simulation.SCENARIOS if each.name == "A/A")
    rows = simulation.simulate(scenario, studies=60, resamples=200, seed=1)
    shares = {(row["quantity"], row["method"]): row["share"] for row in rows}
    assert shares[("coverage: score", "studentized")] > 0.85
    assert shares[("coverage: tool_name_count_ratio", "studentized")] > 0.85
    assert shares[("verdict: damaged but masked", "")] < 0.12
    assert sum(shares[key] for key in shares if key[0].startswith("verdict")) == pytest.approx(1)


def test_committed_coverage_meets_its_promise() -> None:
    path = __file__.replace("tests/test_statistics_methods.py", "resources/coverage.tsv")
    table = pd.read_csv(path, sep="\t")
    assert table["seed"].nunique() == table["date"].nunique() == 1
    assert set(table["scenario"]) == {scenario.name for scenario in simulation.SCENARIOS}
    accused = table[table["scenario"].str.startswith("A/A")]
    accused = accused[accused["quantity"].str.startswith("verdict: damaged")]
    assert (accused.groupby("scenario")["share"].sum() <= 0.05).all()
    covered = table[table["method"] == "studentized"]
    slack = 2 * covered["standard_error"]
    assert (covered["share"] > 0.94 - slack).all()
    dense = ~covered["scenario"].str.contains("thin|closed")  # exact bounds cover more there
    assert (covered["share"] < 0.96 + slack)[dense].all()
    assert len(TASKS) == simulation.TASKS

"""Time the statistics of a study of the published size against a loop over scipy.

    python tests/benchmarks/bench_statistics.py

10 cells x 3 precisions x 11 budgets, 114 tasks x 4 trials, 5,000 resamples. The loop calls
``scipy.stats.bootstrap`` once for each number of the tables ``scores``, ``contrasts`` and
``budgets``; it is timed on some of them and scaled up.
"""

import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "tests")]

from _studies import join, random_arm  # noqa: E402

from flatscore import statistics  # noqa: E402


def study() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the frames of 10 cells at three precisions."""
    rng = np.random.default_rng(0)
    precisions = (("bf16", 1.4), ("fp8", 1.4), ("int4", 3.0))
    return join(
        *(
            random_arm(rng, mean=mean, precision=precision, model=f"model-{cell}")
            for cell in range(10)
            for precision, mean in precisions
        )
    )


def seconds_of_one_scipy_bootstrap(episodes: pd.DataFrame, *, repeats: int = 5) -> float:
    """Return the time of one percentile interval of a difference of two pooled rates."""
    first, second = (
        episodes[(episodes["model"] == "model-0") & (episodes["precision"] == precision)]
        .groupby("task")[["errors", "agent_calls"]]
        .sum()
        .to_numpy(dtype=float)
        for precision in ("bf16", "int4")
    )

    def difference(index: np.ndarray, axis: int = -1) -> np.ndarray:
        tops = [each[index, 0].sum(axis=axis) for each in (first, second)]
        bottoms = [each[index, 1].sum(axis=axis) for each in (first, second)]
        return tops[1] / bottoms[1] - tops[0] / bottoms[0]

    start = time.perf_counter()
    for seed in range(repeats):
        stats.bootstrap(
            (np.arange(len(first)),),
            difference,
            n_resamples=5000,
            method="percentile",
            vectorized=True,
            rng=np.random.default_rng(seed),
        )
    return (time.perf_counter() - start) / repeats


def main() -> None:
    """Print both times, their ratio and the peak memory."""
    episodes, calls = study()
    start = time.perf_counter()
    tables = statistics.analyse(episodes, calls, settings=statistics.Settings(seed=1))
    ours = time.perf_counter() - start
    numbers = sum(
        int(tables[name][column].notna().sum())
        for name, columns in (
            ("scores", ["ci_low"]),
            ("contrasts", ["ci_low"]),
            ("budgets", ["ci_low", "did_low", "s_full_low", "s_low_low"]),
        )
        for column in columns
    )
    theirs = seconds_of_one_scipy_bootstrap(episodes) * numbers
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"analyse: {ours:.1f} s for all 15 tables, peak memory {memory:.2f} GB")
    print(f"scipy.stats.bootstrap, {numbers} intervals one by one: {theirs:.1f} s")
    print(f"ratio {theirs / ours:.1f} (the loop has no p-values, bands or studentized errors)")


if __name__ == "__main__":
    main()

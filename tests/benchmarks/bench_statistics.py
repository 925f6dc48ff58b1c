"""Time the statistics of a study of the published size against a loop over scipy.

    python tests/benchmarks/bench_statistics.py

10 cells x 3 precisions x 11 budgets, 114 tasks x 4 trials, 5,000 resamples. The loop calls
``scipy.stats.bootstrap`` once for each interval of the tables and ``scipy.stats.permutation_test``
once for each p-value; both are timed on one rate difference and scaled up. Sums by task are
given to the loop for nothing.
"""

import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT)]

from tests._studies import join, random_arm  # noqa: E402

from flatscore import statistics  # noqa: E402

# Columns NAME_low that are ends of a 95 % interval.
STATED = {"ci", "boot", "did", "s_full", "s_low", "rate_full", "per_episode_full", "interaction"}


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


def seconds_of_scipy(episodes: pd.DataFrame, *, repeats: int = 5) -> tuple[float, float]:
    """Return the time of one percentile interval and of one p-value of a rate difference."""
    first, second = (
        episodes[(episodes["model"] == "model-0") & (episodes["precision"] == precision)]
        .groupby("task")[["errors", "agent_calls"]]
        .sum()
        .to_numpy(dtype=float)
        for precision in ("bf16", "int4")
    )

    def difference(index: Any, axis: int = -1) -> Any:
        tops = [each[index, 0].sum(axis=axis) for each in (first, second)]
        bottoms = [each[index, 1].sum(axis=axis) for each in (first, second)]
        return tops[1] / bottoms[1] - tops[0] / bottoms[0]

    def swapped(left: Any, right: Any, axis: int = -1) -> Any:
        both = np.concatenate([first, second])
        tops, bottoms = (
            [both[index.astype(int), column].sum(axis=axis) for index in (left, right)]
            for column in (0, 1)
        )
        return tops[1] / bottoms[1] - tops[0] / bottoms[0]

    tasks = np.arange(len(first))
    start = time.perf_counter()
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        stats.bootstrap((tasks,), difference, n_resamples=5000, method="percentile", rng=rng)
    middle = time.perf_counter()
    for seed in range(repeats):
        stats.permutation_test(
            (tasks, tasks + len(tasks)),
            swapped,
            permutation_type="samples",
            n_resamples=5000,
            rng=np.random.default_rng(seed),
        )
    return (middle - start) / repeats, (time.perf_counter() - middle) / repeats


def main() -> None:
    """Print both times, their ratio and the peak memory."""
    episodes, calls = study()
    start = time.perf_counter()
    tables = statistics.analyse(episodes, calls, settings=statistics.Settings(seed=1))
    ours = time.perf_counter() - start
    intervals, p_values = (
        sum(int(frame[c].notna().sum()) for frame in tables.values() for c in frame if end(c))
        for end in (lambda c: c.endswith("_low") and c[:-4] in STATED, lambda c: c == "p_value")
    )
    interval, p_value = seconds_of_scipy(episodes)
    theirs = interval * intervals + p_value * p_values
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"analyse: {ours:.1f} s for all {len(tables)} tables, peak memory {memory:.2f} GB")
    print(f"scipy, {intervals} intervals and {p_values} p-values one by one: {theirs:.1f} s")
    print(f"ratio {theirs / ours:.1f} (the loop has no studentized intervals and no bands)")


if __name__ == "__main__":
    main()

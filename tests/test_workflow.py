"""The workflow as its user runs it: real Snakemake, weights, quantizers and τ²-bench."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from flatscore import statistics

ROOT = Path(__file__).resolve().parents[1]
STUDY: dict[str, Any] = {
    "study": "tiny",
    "seed": 7,
    "models": {"open": {"embedded": "open"}},
    "precisions": ["bf16", "bnb-nf4", "gptq-int4"],
    "episodes": {"tasks": 4, "trials": 2, "budgets": [10, 2]},
    "quantize": {"gptq-int4": {"conversations": 8}},
    "statistics": {"resamples": 300},
}


def snakemake(folder: Path, *arguments: str, study: dict[str, Any] = STUDY) -> Any:
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(study))
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--snakefile", ROOT / "Snakefile"]
    command += ["--directory", folder, "--configfile", file, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def jobs(dry_run: Any) -> dict[str, int]:
    """Rule -> number of jobs, as a dry run prints them."""
    assert dry_run.returncode == 0, dry_run.stdout + dry_run.stderr
    lines = (dry_run.stdout + dry_run.stderr).splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("job ")]
    if not starts:
        return {}
    counts = {}
    for line in lines[starts[0] + 2 :]:
        if not line.strip() or line.startswith("total"):
            break
        rule, count = line.split()
        counts[rule] = int(count)
    return counts


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the tiny study has been run from nothing."""
    folder = tmp_path_factory.mktemp("study")
    ended = snakemake(folder)
    logs = "\n".join(p.read_text()[-3000:] for p in folder.rglob("results/tiny/logs/**/*.log"))
    assert ended.returncode == 0, ended.stderr[-3000:] + logs
    return folder


@pytest.mark.slow
def test_one_run_makes_every_table_the_report_and_the_log(finished: Path) -> None:
    results = finished / "results/tiny"
    for table, columns in statistics.COLUMNS.items():
        frame = pd.read_csv(results / f"tables/{table}.tsv", sep="\t")
        assert list(frame.columns) == list(columns), table
    assert (results / "report.html").stat().st_size > 10_000
    assert json.loads((results / "tracking.json").read_text())
    assert (finished / "results/mlflow/mlflow.db").exists()
    assert not (finished / "mlruns").exists()


@pytest.mark.slow
def test_a_live_budget_equals_the_counted_one(finished: Path) -> None:
    live = pd.read_csv(finished / "results/tiny/tables/live_budgets.tsv", sep="\t")
    assert len(live) == 6
    assert live["equal"].all()


@pytest.mark.slow
def test_recorded_result_files_take_the_same_way(finished: Path) -> None:
    runs = finished / "results/tiny/episodes/open"
    files = {p: str(runs / p / "telecom/none/budget-10.json") for p in ("bf16", "bnb-nf4")}
    study = STUDY | {"study": "logs", "models": {"logs": {"recorded": {"telecom": files}}}}
    ended = snakemake(finished, "--", "results/logs/report.html", study=study)
    assert ended.returncode == 0, ended.stderr[-3000:]
    verdicts = pd.read_csv(finished / "results/logs/tables/verdicts.tsv", sep="\t")
    assert list(verdicts["precision"]) == ["bnb-nf4"]


@pytest.mark.slow
def test_there_is_nothing_to_do_afterwards(finished: Path) -> None:
    assert jobs(snakemake(finished, "-n")) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"statistics": {"resamples": 400}}, {"analyse_study", "build_report", "log_study", "all"}),
        (
            {"episodes": {"tasks": 4, "trials": 3, "budgets": [10, 2]}},
            {
                "run_episodes",
                "tabulate_calls",
                "analyse_study",
                "build_report",
                "log_study",
                "all",
            },
        ),
    ],
    ids=["more resamples", "one more trial"],
)
def test_an_edit_reruns_what_depends_on_it(
    finished: Path, change: dict[str, Any], expected: set[str]
) -> None:
    assert set(jobs(snakemake(finished, "-n", study=STUDY | change))) == expected


@pytest.mark.slow
def test_the_same_config_gives_the_same_tables(finished: Path) -> None:
    tables = finished / "results/tiny/tables"
    first = {path.name: path.read_bytes() for path in tables.iterdir()}
    shutil.rmtree(finished / "results/store")
    shutil.rmtree(finished / "results/tiny")
    ended = snakemake(finished, "--", "results/tiny/tables/scores.tsv")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert {path.name: path.read_bytes() for path in tables.iterdir()} == first


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"episode": {}}, "unknown key episode (did you mean episodes?)"),
        ({"models": {"open": {"embedded": "opne"}}}, "open"),
        ({"models": {"mine": {"path": "no/such/folder"}}}, "no/such/folder"),
        ({"episodes": {"split": "bsae"}}, "the nearest is base"),
        ({"episodes": {"engine": "vllm"}}, "there is no .venvs/vllm"),
    ],
)
def test_bad_input_is_refused_before_any_job(
    tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    ended = snakemake(tmp_path, study=STUDY | change)
    assert ended.returncode != 0
    assert expected in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a read-only file system")
def test_a_read_only_results_folder_is_refused(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", results], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine does not let tests mount a file system")
    try:
        ended = snakemake(tmp_path)
        assert ended.returncode != 0
        assert "the results folder cannot be written" in ended.stderr
    finally:
        subprocess.run(["umount", results], check=True)

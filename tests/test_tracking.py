"""The MLflow log: real SQLite and a real server, logged twice, changed, locked, renamed."""

import copy
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pandas as pd
import pytest
from mlflow import MlflowClient

from flatscore import tracking
from flatscore.errors import InputError
from flatscore.files import write_json, write_text
from flatscore.statistics import Settings, analyse
from tests import _studies

STUDY = {"study": "tiny", "seed": 1, "models": {"m": {"embedded": "open"}}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study folder, from frames."""
    import numpy as np

    folder = tmp_path_factory.mktemp("made") / "results/tiny"
    rng = np.random.default_rng(1)
    tasks = _studies.TASKS[:12]
    frames = _studies.join(
        *(
            _studies.random_arm(rng, trials=2, tasks=tasks, precision=p, mean=mean)
            for p, mean in (("bf16", 1.0), ("bnb-nf4", 2.0))
        )
    )
    analyse(*frames, settings=Settings(seed=1, resamples=200)).write(folder / "tables")
    write_text(folder / "figures/budgets.svg", "<svg/>")
    write_text(folder / "report.html", "<html/>")
    write_json(folder / "provenance.json", {})
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import shutil

    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path / "results/tiny"))


def database() -> str:
    # MLflow keeps one connection a URI, so a relative one would lead to an earlier test's file.
    return f"sqlite:///{Path.cwd()}/mlflow/mlflow.db"


def log(folder: Path, study: Any = None, uri: str | None = None) -> Any:
    return tracking.log_study(folder, study=study or STUDY, uri=uri or database(), experiment="e")


def runs(uri: str | None = None) -> dict[str, Any]:
    client = MlflowClient(tracking_uri=uri or database())
    experiment = client.get_experiment_by_name("e")
    found = client.search_runs([experiment.experiment_id])
    return {run.info.run_name: run for run in found}


def test_one_run_for_the_study_and_one_for_each_arm(folder: Path) -> None:
    summary = log(folder)
    assert (summary["created"], summary["updated"]) == (3, 0)
    found = runs()
    parent = found["tiny"]
    arm = found["m bnb-nf4 telecom none budget 10"]
    assert arm.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert arm.data.params["precision"] == "bnb-nf4"
    scores = pd.read_csv(folder / "tables/scores.tsv", sep="\t").set_index("precision")
    assert arm.data.metrics["score"] == pytest.approx(scores.loc["bnb-nf4", "score"])
    client = MlflowClient(tracking_uri=database())
    curve = client.get_metric_history(arm.info.run_id, "S_of_K")
    assert [point.step for point in curve] == list(range(11))
    artifacts = {f.path for f in client.list_artifacts(parent.info.run_id)}
    assert artifacts == {"tables", "figures", "report.html", "provenance.json", "config.json"}
    assert len(client.list_artifacts(parent.info.run_id, "tables")) == 15
    assert not Path("mlruns").exists()


def test_logging_twice_changes_nothing(folder: Path) -> None:
    log(folder)
    client = MlflowClient(tracking_uri=database())
    before = runs()
    summary = log(folder)
    assert (summary["created"], summary["updated"], summary["unchanged"]) == (0, 0, 3)
    after = runs()
    assert {n: r.info.run_id for n, r in before.items()} == {
        n: r.info.run_id for n, r in after.items()
    }
    arm = after["m bf16 telecom none budget 10"]
    assert len(client.get_metric_history(arm.info.run_id, "score")) == 1
    assert len(client.get_metric_history(arm.info.run_id, "S_of_K")) == 11


def test_a_changed_table_updates_its_run_in_place(folder: Path) -> None:
    log(folder)
    before = runs()["m bf16 telecom none budget 10"]
    file = folder / "tables/scores.tsv"
    table = pd.read_csv(file, sep="\t", keep_default_na=False)
    table.loc[table["precision"] == "bf16", "score"] = 0.5
    table.to_csv(file, sep="\t", index=False)
    assert log(folder)["updated"] == 1
    after = runs()["m bf16 telecom none budget 10"]
    assert after.info.run_id == before.info.run_id
    assert after.data.metrics["score"] == 0.5


def test_an_arm_that_left_the_config_is_marked(folder: Path) -> None:
    log(folder)
    file = folder / "tables/scores.tsv"
    table = pd.read_csv(file, sep="\t", keep_default_na=False)
    table[table["precision"] == "bf16"].to_csv(file, sep="\t", index=False)
    assert log(folder)["retired"] == 1
    states = {name: run.data.tags["flatscore.state"] for name, run in runs().items()}
    assert states == {
        "tiny": "current",
        "m bf16 telecom none budget 10": "current",
        "m bnb-nf4 telecom none budget 10": "left the config",
    }


def test_missing_values_are_left_out_and_said_so(folder: Path) -> None:
    summary = log(folder)
    left_out = set(summary["left_out"])
    assert "contrast.entity_count_ratio.estimate" in left_out
    for run in runs().values():
        assert not left_out & {k for k in run.data.metrics if run.info.run_name == "tiny"}
        assert all(value == value for value in run.data.metrics.values())


def test_odd_names_stay_apart() -> None:
    odd = ["a:b", "a;b", "a b", "a/b", "a..b", "é", "a" * 20]
    assert len({tracking.name(text) for text in odd}) == len(odd)
    assert tracking.name("tool_name.rate") == "tool_name.rate"


def test_a_locked_database_is_waited_for_and_then_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(folder)
    monkeypatch.setattr(tracking, "TRIES", 1)
    held = sqlite3.connect("mlflow/mlflow.db", isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    study = copy.deepcopy(STUDY) | {"seed": 2}
    with pytest.raises(InputError, match="Close what holds the database"):
        log(folder, study)
    held.execute("ROLLBACK")
    held.close()
    assert log(folder, study)["created"] == 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--backend-store-uri", f"sqlite:///{tmp_path}/server.db"]
    command += ["--artifacts-destination", str(tmp_path / "server-artifacts"), "--workers", "1"]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    uri = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            urlopen(f"{uri}/health", timeout=1).read()  # noqa: S310
            break
        except OSError:
            time.sleep(0.5)
    yield uri
    os.killpg(process.pid, 15)
    process.wait(20)


@pytest.mark.slow
def test_a_real_server_takes_the_same(folder: Path, server: str) -> None:
    assert log(folder, uri=server)["created"] == 3
    assert log(folder, uri=server)["unchanged"] == 3
    client = MlflowClient(tracking_uri=server)
    parent = runs(server)["tiny"]
    assert len(client.list_artifacts(parent.info.run_id, "tables")) == 15

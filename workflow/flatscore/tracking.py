"""The MLflow log of a study: one parent run, and one run an arm, updated in place.

A run is found by the tag ``flatscore.key``, a digest of what the run is about, so logging twice
changes nothing and a partial rerun updates what it has changed. MLflow is imported here and nowhere
else; it takes seconds.
"""

import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flatscore.errors import InputError
from flatscore.files import digest

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Metric, Run

T = TypeVar("T")
KEY, STATE = "flatscore.key", "flatscore.state"
ARM = ("model", "domain", "precision", "repair", "budget")
TRIES = 5  # on a locked SQLite file, with 1, 2, 4 ... seconds between them


def log_study(
    folder: Path, *, study: Mapping[str, Any], uri: str, experiment: str
) -> dict[str, Any]:
    """Log the finished files of a study.

    Parameters
    ----------
    folder
        The study's folder: ``tables/*.tsv``, ``figures/``, ``report.html``, ``provenance.json``.
    study
        The configuration as plain values; part of it identifies the runs, all of it is logged.
    uri
        MLflow's tracking URI.
    experiment
        The experiment's name; it is created.

    Returns
    -------
    dict
        ``created``, ``updated``, ``unchanged`` and ``retired`` numbers of runs, and ``left_out``,
        the number of arms in which a metric has no finite value, by metric.

    Raises
    ------
    InputError
        When the tracking store stays locked or cannot be reached.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    # A server that is down must be told of in a minute, not in MLflow's many.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
    try:
        return _Logger(folder, study, uri, experiment).log()
    except Exception as error:
        if isinstance(error, InputError) or "mlflow" not in type(error).__module__:
            raise
        raise InputError(
            uri,
            f"MLflow cannot log there: {str(error).splitlines()[0]}.",
            "Close what holds the database, or start the server, and run again.",
        ) from error


class _Logger:
    """One pass over the files of a study."""

    def __init__(self, folder: Path, study: Mapping[str, Any], uri: str, experiment: str) -> None:
        from mlflow import MlflowClient

        from flatscore.statistics import read_tables

        self.folder, self.study = folder, study
        self.tables = read_tables(folder / "tables")
        if uri.startswith("sqlite:///"):
            Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        self.client: MlflowClient = _patiently(lambda: MlflowClient(tracking_uri=uri))
        self.experiment = _patiently(lambda: self._experiment(experiment, uri))
        self.known = {
            run.data.tags[KEY]: run
            for run in _patiently(self._runs)
            if KEY in run.data.tags and run.data.tags.get("study") == study["study"]
        }
        self.summary: dict[str, Any] = {"created": 0, "updated": 0, "unchanged": 0, "retired": 0}
        self.left_out: Counter[str] = Counter()

    def log(self) -> dict[str, Any]:
        parent = self._study_run()
        keys = {parent.data.tags[KEY]}
        for row in self.tables["scores"].to_dict("records"):
            arm = {str(name): _plain(row[name]) for name in ARM}
            keys.add(self._arm_run(parent, arm))
        for key, run in self.known.items():
            if key not in keys and run.data.tags.get(STATE) != "left the config":
                self.client.set_tag(run.info.run_id, STATE, "left the config")
                self.summary["retired"] += 1
        return {
            **self.summary,
            "experiment": self.experiment,
            "left_out": dict(sorted(self.left_out.items())),
        }

    def _experiment(self, name: str, uri: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        # Beside the database; a server keeps artifacts where it was told to.
        place = None
        if uri.startswith("sqlite:///"):
            place = (Path(uri.removeprefix("sqlite:///")).parent / "artifacts").resolve().as_uri()
        return str(self.client.create_experiment(name, artifact_location=place))

    def _runs(self) -> list["Run"]:
        runs, token = [], None
        while True:
            page = self.client.search_runs([self.experiment], max_results=1000, page_token=token)
            runs += list(page)
            token = page.token
            if not token:
                return runs

    def _study_run(self) -> "Run":
        """The parent run: the config, and every table, figure and the report."""
        verdicts = self.tables["verdicts"]
        sentences = {
            f"verdict.{name(row['model'])}.{row['domain']}.{row['precision']}": row["sentence"]
            for row in verdicts.to_dict("records")
        }
        parameters = {"study": self.study["study"], "seed": self.study["seed"]}
        run, _ = self._run(
            {"study": self.study["study"], "seed": self.study["seed"]},
            str(self.study["study"]),
            parameters,
            {"config_digest": digest(dict(self.study)), **sentences},
            [],
        )
        identity = run.info.run_id
        self.client.log_dict(identity, dict(self.study), "config.json")
        for part in ("tables", "figures"):
            self.client.log_artifacts(identity, str(self.folder / part), part)
        for file in ("report.html", "provenance.json"):
            self.client.log_artifact(identity, str(self.folder / file))
        return run

    def _arm_run(self, parent: "Run", arm: dict[str, Any]) -> str:
        metrics, left_out = self._metrics(arm)
        title = " ".join(str(arm[part]) for part in ("model", "precision", "domain", "repair"))
        self.left_out.update(left_out)
        identity = {"study": self.study["study"], "seed": self.study["seed"], **arm}
        run, key = self._run(
            identity,
            f"{title} budget {arm['budget']}",
            arm,
            {
                "mlflow.parentRunId": parent.info.run_id,
                "metrics_left_out": str(len(left_out)),
            },
            metrics,
        )
        weights = self.folder / "weights" / arm["model"] / arm["precision"]
        for file in ("manifest.json", "check.json"):
            if (weights / file).exists():
                self.client.log_artifact(run.info.run_id, str(weights / file), "weights")
        return key

    def _run(
        self,
        identity: Mapping[str, Any],
        title: str,
        parameters: Mapping[str, Any],
        tags: Mapping[str, str],
        metrics: list["Metric"],
    ) -> tuple["Run", str]:
        """Find or create a run, and bring its tags and metrics up to date."""
        from mlflow.entities import Param, RunTag

        key = digest(dict(identity))
        run = self.known.get(key)
        wanted = {KEY: key, STATE: "current", "study": str(self.study["study"]), **tags}
        created = run is None
        if run is None:
            run = self.client.create_run(
                self.experiment, tags={**wanted, "mlflow.user": "flatscore"}, run_name=title
            )
            parameter_list = [Param(k, str(v)) for k, v in parameters.items()]
            self.client.log_batch(run.info.run_id, params=parameter_list)
        changed_tags = [RunTag(k, v) for k, v in wanted.items() if run.data.tags.get(k) != v]
        changed = [m for m in metrics if created or not self._has(run, m)]
        if changed or changed_tags:
            for start in range(0, max(len(changed), 1), 1000):
                self.client.log_batch(
                    run.info.run_id,
                    metrics=changed[start : start + 1000],
                    tags=changed_tags if start == 0 else [],
                )
        self.client.set_terminated(run.info.run_id, "FINISHED")
        state = "created" if created else "updated" if changed or changed_tags else "unchanged"
        self.summary[state] += 1
        return self.client.get_run(run.info.run_id), key

    def _has(self, run: "Run", metric: "Metric") -> bool:
        """Whether a metric's value is logged already; a curve is looked up at its step."""
        if metric.key != "S_of_K":
            return bool(run.data.metrics.get(metric.key) == metric.value)
        history = self.client.get_metric_history(run.info.run_id, metric.key)
        at_step = [point.value for point in history if point.step == metric.step]
        return bool(at_step) and at_step[-1] == metric.value

    def _metrics(self, arm: dict[str, Any]) -> tuple[list["Metric"], list[str]]:
        """The finite metrics of an arm, and the names of those that have no value."""
        from mlflow.entities import Metric

        values: dict[str, Any] = {}
        score = _rows(self.tables["scores"], arm)[0]
        for column in (
            "score",
            "ci_low",
            "ci_high",
            "episodes",
            "successes",
            "agent_calls",
            "errors_per_episode",
            "interceptions",
            "recovery",
        ):
            values[column] = score[column]
        for row in _rows(self.tables["channels"], arm):
            for column in ("events", "rate", "events_per_episode"):
                values[f"{row['channel']}.{column}"] = row[column]
        for row in _rows(self.tables["contrasts"], {k: arm[k] for k in ARM[:4]}):
            for column in ("estimate", "ci_low", "ci_high", "p_value"):
                values[f"contrast.{row['metric']}.{column}"] = row[column]
        finite = {k: float(v) for k, v in values.items() if _finite(v)}
        now = int(time.time() * 1000)
        metrics = [Metric(name(k), v, now, 0) for k, v in finite.items()]
        metrics += [Metric("S_of_K", s, now, k) for k, s in self._curve(arm)]
        return metrics, sorted(set(values) - set(finite))

    def _curve(self, arm: dict[str, Any]) -> list[tuple[int, float]]:
        """(K, S(K)) of the arm that budgets are counted from."""
        budgets = self.tables["budgets"]
        same = {key: arm[key] for key in ("model", "domain", "repair")}
        rows = _rows(budgets, same)
        own = [row for row in rows if row["precision"] == arm["precision"]]
        side = "s_low"
        if not own:
            own = [row for row in rows if row["baseline"] == arm["precision"]]
            side = "s_full"
        if not own or arm["budget"] != max(row["k"] for row in own):
            return []
        curve = {int(row["k"]): float(row[side]) for row in own if _finite(row[side])}
        return sorted(curve.items())


def name(text: object) -> str:
    """A name that MLflow accepts; what it does not is replaced by its code, so names stay apart."""
    return re.sub(r"[^\w\-. /]|\.\.", lambda m: "".join(f"_x{ord(c):x}_" for c in m[0]), str(text))


def _rows(table: "pd.DataFrame", where: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a table with the given values, as dicts."""
    chosen = table
    for column, value in where.items():
        chosen = chosen[chosen[column] == value]
    return [{str(k): v for k, v in row.items()} for row in chosen.to_dict("records")]


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except TypeError:
        return False


def _plain(value: Any) -> Any:
    return int(value) if hasattr(value, "item") else value


def _patiently(call: Callable[[], T]) -> T:
    """Repeat a call while another process holds the database."""
    for attempt in range(TRIES - 1):
        try:
            return call()
        except Exception as error:
            if "locked" not in str(error):
                raise
            time.sleep(2**attempt)
    return call()

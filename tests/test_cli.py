"""The audit from result files to report: the published study, and every refusal."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flatscore import __version__, cli
from flatscore.statistics import COLUMNS
from tests._studies import golden_arm
from tests._synthetic import (
    changed,
    conversation,
    episode,
    from_frames,
    phone_tools,
    results,
    write,
)

QUICK = ("--resamples", "300")

TASKS = tuple(f"t{index}" for index in range(6))
RUN = results([episode(task, conversation([], 3), reward=float(task > "t2")) for task in TASKS])


def table(out: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(out / "tables" / f"{name}.tsv", sep="\t")


def audit(*arguments: Any) -> int:
    return cli.main(["audit", *map(str, arguments), *QUICK])


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The audit of result files with the published totals."""
    folder = tmp_path_factory.mktemp("published")
    names = phone_tools()
    new = ["reset_everything", "reset_everything", "call_support"]
    arms = {
        "full": golden_arm(304, 260, 649, 3328, noise=1, names=names),
        "NF4 run": golden_arm(298, 184, 1646, 4298, noise=2, names=names, fresh=new),
        "repaired": golden_arm(325, 290, 350, 3100, noise=4, names=names),
    }
    full, low, repaired = (
        write(folder / f"{name}.json", from_frames(frames)) for name, frames in arms.items()
    )
    assert audit(full, low, "--repaired", repaired, "--out", folder / "out") == 0
    return folder / "out"


def test_published_totals_come_back(published: Path) -> None:
    scores = table(published, "scores").set_index(["precision", "repair"])
    assert list(scores.index) == [("bf16", "none"), ("nf4-run", "none"), ("nf4-run", "reflexive")]
    assert scores["successes"].tolist() == [304, 298, 325]
    assert scores["episodes"].tolist() == [456, 456, 456]
    fake = table(published, "channels").query("channel == 'tool_name' and repair == 'none'")
    assert fake["events"].tolist() == [649, 1646]
    assert fake["calls"].tolist() == [3328, 4298]
    vocabulary = table(published, "vocabulary")
    assert vocabulary.loc[vocabulary["events_full"] == 0, "events_low"].sum() == 3
    budgets = table(published, "budgets").query("repair == 'none'").set_index("k")
    gap = (budgets["gap"] * 456).round(6)
    assert (abs(gap[10]), abs(gap[2])) == (6, 76)
    repair = table(published, "repair").iloc[-1]
    assert (repair["successes"], repair["successes_repaired"]) == (298, 325)


def test_published_verdict(published: Path) -> None:
    verdict = table(published, "verdicts").iloc[0]
    assert verdict["verdict"] == "damaged but masked"
    assert re.search(
        r"calls to fake tools ×2.5 \(.*score unchanged.*the gap appears at K ≤ 4",
        verdict["sentence"],
    )


def test_every_file_is_there(published: Path) -> None:
    tables = {path.stem for path in (published / "tables").iterdir()}
    assert tables == set(COLUMNS)
    assert "damaged but masked" in (published / "report.html").read_text(encoding="utf-8")
    assert (published / "figures" / "budgets.svg").is_file()
    provenance = json.loads((published / "provenance.json").read_text(encoding="utf-8"))
    assert len(provenance["files"]) == 3
    assert provenance["config"]["audit"]["resamples"] == 300


def test_a_recorded_run_against_itself_shows_no_damage(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shared / "trajectories" / "gpt-4.1_telecom_40.json"
    assert audit(run, run, "--out", tmp_path / "out") == 0
    verdict = table(tmp_path / "out", "verdicts").iloc[0]
    assert verdict["verdict"] in ("unaffected", "inconclusive")
    assert table(tmp_path / "out", "scores")["score"].tolist() == [0.45, 0.45]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"gpt-4.1 on telecom, gpt-4.1-telecom-40: {verdict['sentence']}"
    assert printed[-1] == f"report: {tmp_path / 'out' / 'report.html'}"


def test_infrastructure_errors_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    died = episode("t0", reward=None, termination="infrastructure_error", info={"error": "timeout"})
    full = write(tmp_path / "full.json", RUN)
    low = write(tmp_path / "low.json", changed(RUN, "simulations/0", died))
    assert audit(full, low, "--out", tmp_path / "out") == 0
    assert table(tmp_path / "out", "scores")["episodes"].tolist() == [6, 5]
    excluded = table(tmp_path / "out", "exclusions").iloc[0]
    assert (excluded["reason"], excluded["episodes"], excluded["excluded"]) == ("timeout", 1, True)
    assert "low, repair none: 1 episodes left out: timeout" in capsys.readouterr().out


def test_context_overflow_in_one_arm_is_counted_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = {"flatscore": {"raw": "", "unreadable": "the context is full", "interceptions": []}}
    messages = [*conversation([], 1), {"role": "assistant", "content": "(empty)", "raw_data": lost}]
    failed = episode("t5", messages, reward=0.0, termination="agent_error")
    full = write(tmp_path / "full.json", RUN)
    low = write(tmp_path / "low.json", changed(RUN, "simulations/5", failed))
    assert audit(full, low, "--out", tmp_path / "out") == 0
    assert table(tmp_path / "out", "scores")["episodes"].tolist() == [6, 6]
    assert table(tmp_path / "out", "scores")["successes"].tolist() == [3, 2]
    assert "1 episodes counted as failed: harness_lost" in capsys.readouterr().out


def test_odd_episodes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = write(tmp_path / "full.json", RUN)
    torn = [*conversation([], 1)[:-1]]
    low = write(tmp_path / "low.json", changed(RUN, "simulations/0/messages", torn))
    assert audit(full, low, "--out", tmp_path / "out") == 0
    assert "low.json: episode t0-0: 1 calls without an answer" in capsys.readouterr().out
    provenance = json.loads((tmp_path / "out" / "provenance.json").read_text(encoding="utf-8"))
    assert list(provenance["anomalies"].values()) == [{"t0-0": ["1 calls without an answer"]}]


def test_precisions_are_named_as_recorded_or_after_the_file(tmp_path: Path) -> None:
    recorded = changed(RUN, "info/agent_info/llm_args/precision", "bnb-nf4")
    half = changed(RUN, "info/agent_info/llm_args/precision", "fp16")
    paths = [
        write(tmp_path / "full" / "results.json", half),
        write(tmp_path / "Q4_K M" / "results.json", RUN).parent,
        write(tmp_path / "a.json", recorded),
        write(tmp_path / "b.json", recorded),
        write(tmp_path / "q4-k-m.json", RUN),
    ]
    assert audit(*paths, "--out", tmp_path / "out") == 0
    named = table(tmp_path / "out", "scores")["precision"].tolist()
    assert named == ["fp16", "q4-k-m", "bnb-nf4", "b", "q4-k-m-2"]


def test_help_version_and_a_missing_command(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, status, said in (
        (["--help"], 0, "flatscore audit bf16.json nf4.json int4.json --repaired"),
        (["audit", "--help"], 0, "exit status: 0 done; 2 input refused"),
        (["--version"], 0, f"flatscore {__version__}"),
        ([], 2, "the following arguments are required: COMMAND"),
        (["audit", "a.json", "--out", "o"], 2, "the following arguments are required: LOW"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == status
        printed = capsys.readouterr()
        assert said in printed.out + printed.err


def test_module_runs() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "flatscore", "--version"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(cli.__file__).parents[1],
    )
    assert ran.stdout == f"flatscore {__version__}\n"

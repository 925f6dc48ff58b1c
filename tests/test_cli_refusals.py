"""What the audit refuses: one line that names file, cause and remedy; nothing written."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests._synthetic import changed, episode, results, write
from tests.test_cli import RUN, TASKS, audit

FIRST = RUN["simulations"][0]

REFUSED: dict[str, tuple[Any, str]] = {
    "no JSON": ("this is not JSON", r"is not JSON, or was cut off"),
    "torn": (json.dumps(RUN)[:-40], r"is not JSON, or was cut off .* resume the run"),
    "empty file": ("", r"is not JSON"),
    "not UTF-8": (b"\xff\xfe{}", r"is not JSON"),
    "no object": ([1, 2], r"is not a τ²-bench result file: it has no info and tasks"),
    "other JSON": ({"scores": []}, r"is not a τ²-bench result file: it has no info and tasks"),
    "no model": (changed(RUN, "info/agent_info", None), r"in info/agent_info, None is not of type"),
    "no task ids": (changed(RUN, "tasks/0", {}), r"in tasks/0, 'id' is a required property"),
    "no budget": (changed(RUN, "info/max_errors", None), r"in info/max_errors, None is not"),
    "text reward": (
        changed(RUN, "simulations/0/reward_info/reward", "good"),
        r"in simulations/0/reward_info/reward, 'good' is not of type",
    ),
    "odd message": (
        changed(RUN, "simulations/0/messages/1", {"content": "?"}),
        r"in simulations/0/messages/1, 'role' is a required property",
    ),
    "no episodes": (changed(RUN, "simulations", []), r"holds no episodes"),
    "other domain": (
        changed(RUN, "info/environment_info/domain_name", "retail"),
        r"low.json: differs from .*full.json in domain: 'retail' against 'telecom'",
    ),
    "other tasks": (
        results([episode(task) for task in ("x1", *TASKS[1:])]),
        r"do not hold the same episodes: .*full.json alone has t0 trial 0; "
        r".*low.json alone has x1 trial 0\. Finish both runs on the same tasks",
    ),
    "missing slots": (
        changed(RUN, "simulations", RUN["simulations"][2:]),
        r"full.json alone has t0 trial 0, t1 trial 0\.",
    ),
    "duplicates": (
        changed(RUN, "simulations", [FIRST, *RUN["simulations"]]),
        r"holds episodes twice: t0 trial 0",
    ),
    "other definition": (
        changed(RUN, "tasks/1", {"id": "t1", "ticket": "Help.", "initial_state": None}),
        r"defines 1 tasks otherwise than .*full.json: t1\. .* same release",
    ),
    "user model": (changed(RUN, "info/user_info/llm", "v"), r"in user model: 'v' against 'u'"),
    "user guidelines": (
        changed(RUN, "info/user_info/global_simulation_guidelines", "Be brief."),
        r"in user guidelines",
    ),
    "policy": (changed(RUN, "info/environment_info/policy", "Do not help."), r" in policy: "),
    "temperature": (
        changed(RUN, "info/agent_info/llm_args/temperature", 0.7),
        r"in agent arguments: \{'temperature': 0.7\} against \{'temperature': 0.0\}",
    ),
    "budget": (changed(RUN, "info/max_errors", 3), r"in max_errors: 3 against 10"),
    "agent": (changed(RUN, "info/agent_info/implementation", "mine"), r"in agent: 'mine' against"),
    "ground truth": (
        changed(RUN, "info/agent_info/implementation", "llm_agent_gt"),
        r"was recorded by the ground-truth agent 'llm_agent_gt'",
    ),
    "fractional": (
        changed(RUN, "simulations/0/reward_info/reward", 0.5),
        r"has rewards between 0 and 1, on t0",
    ),
    "NaN reward": (
        changed(RUN, "simulations/0/reward_info/reward", float("nan")),
        r"has rewards between 0 and 1, on t0",
    ),
    "repaired": (
        changed(RUN, "info/agent_info/llm_args/repair", "reflexive"),
        r"was recorded with the repair 'reflexive'\. .* --repaired",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, message = REFUSED[case]
    full, low = write(tmp_path / "full.json", RUN), tmp_path / "low.json"
    raw = content if isinstance(content, bytes | str) else json.dumps(content)
    low.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    refused(capsys, tmp_path / "out", message, full, low)


def refused(capsys: pytest.CaptureFixture[str], out: Path, message: str, *arguments: Any) -> None:
    assert audit(*arguments, "--out", out) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("flatscore: ") and printed.err.count("\n") == 1
    assert re.search(message, printed.err), printed.err
    assert not out.exists()


def test_refusals_of_both_files_and_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    full = write(tmp_path / "full.json", RUN)
    airline = changed(RUN, "info/environment_info/domain_name", "airline")
    other = write(tmp_path / "airline.json", airline)
    refused(capsys, out, r"its domain is 'airline'\. Give runs of retail or telecom", other, other)
    short = write(tmp_path / "short.json", changed(RUN, "info/num_trials", 2))
    refused(capsys, out, r"lacks 6 of 12 episodes: t0 trial 1, .* and 1 more", short, short)
    refused(capsys, out, r"none.json: cannot be read: No such file", full, tmp_path / "none.json")
    refused(capsys, out, r"results.json: cannot be read", full, tmp_path)
    refused(capsys, out, r"--margin: is 2.0\. Give", full, full, "--margin", "2")
    refused(capsys, out, r"--seed: is -1\. Give", full, full, "--seed", "-1")
    warm = write(tmp_path / "warm.json", changed(RUN, "info/agent_info/llm_args/temperature", 0.7))
    refused(capsys, out, r"warm.json: differs", full, full, "--repaired", warm)
    (tmp_path / "mine" / "figures").mkdir(parents=True)
    assert audit(full, full, "--out", tmp_path / "mine") == 2
    assert "figures: was not written by an audit" in capsys.readouterr().err
    assert audit(full, full, "--out", full) == 2
    assert "is a file. Give a folder with --out" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = write(tmp_path / "full.json", RUN)
    (tmp_path / "file").touch()
    assert audit(full, full, "--out", tmp_path / "file" / "out") == 2
    assert "cannot be written: Not a directory. Give another" in capsys.readouterr().err

"""Provenance and what is refused before any job."""

import subprocess
from pathlib import Path

import pytest
import yaml

from flatscore import config, precheck, provenance
from flatscore.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
RAW = yaml.safe_load((ROOT / "config/config.yaml").read_text())


def test_the_commit_says_whether_files_differ_from_it() -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    assert provenance.code_revision() in (commit or None, f"{commit}+changes")


def test_an_edit_of_a_module_changes_its_digest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precheck, "LIBRARY", tmp_path)
    (tmp_path / "calls").mkdir()
    (tmp_path / "calls/_a.py").write_text("1")
    (tmp_path / "report.py").write_text("1")
    before = precheck.source_digest("calls"), precheck.source_digest("report")
    (tmp_path / "calls/_a.py").write_text("2")
    after = precheck.source_digest("calls"), precheck.source_digest("report")
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_recorded_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    recorded = {"telecom": {"bf16": "no.json", "awq": "no-either.json"}}
    study = config.load(RAW | {"models": {"logs": {"recorded": recorded}}})
    with pytest.raises(InputError, match=r"models\.logs\.recorded\.telecom\.bf16: there is no"):
        precheck.check(study, root=tmp_path)


def test_the_default_study_passes(tmp_path: Path) -> None:
    precheck.check(config.load(RAW), root=tmp_path)

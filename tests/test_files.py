"""Files are whole or absent; jobs keep their output in their log."""

import subprocess
import sys
from pathlib import Path

import pytest

from flatscore import files
from flatscore.errors import InputError


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "table.tsv"
    files.write_text(target, "old")
    with pytest.raises(RuntimeError), files.atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_killed_write_leaves_no_file_under_the_final_name(tmp_path: Path) -> None:
    code = (
        "import os, sys; from flatscore.files import atomic_path\n"
        "with atomic_path(sys.argv[1]) as path:\n"
        "    path.write_text('half'); os.kill(os.getpid(), 9)\n"
    )
    target = tmp_path / "episode.json"
    ended = subprocess.run([sys.executable, "-c", code, target], env={"PYTHONPATH": "workflow"})
    assert ended.returncode == -9
    assert not target.exists()


def test_nan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "x.json", {"score": float("nan")})
    assert not (tmp_path / "x.json").exists()


def test_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert files.digest({"a": 1, "b": [2]}) == files.digest({"b": [2], "a": 1})
    assert files.digest({"a": 1}) != files.digest({"a": 2})


def test_an_input_error_names_place_problem_and_remedy() -> None:
    error = InputError("config.yaml", "trials is 0.", "Give at least 1.")
    assert str(error) == "config.yaml: trials is 0. Give at least 1."


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        ("InputError('w', 'bad.', 'Mend it.')", "flatscore: w: bad. Mend it.\n"),
        ("ValueError('odd')", "flatscore: ValueError: odd (see "),
    ],
)
def test_a_job_keeps_its_output_in_the_log(tmp_path: Path, raised: str, shown: str) -> None:
    log = tmp_path / "logs/job.log"
    code = (
        "import os, sys; from flatscore.jobs import logged\n"
        "from flatscore.errors import InputError\n"
        "with logged(sys.argv[1]) as terminal:\n"
        "    print('python'); os.system('echo compiled'); terminal.write('progress\\n')\n"
        f"    raise {raised}\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, log], env={"PYTHONPATH": "workflow"}, capture_output=True
    )
    assert ended.returncode == 1
    assert ended.stdout == b""
    assert ended.stderr.decode().startswith("progress\n" + shown)
    assert {"python", "compiled"} <= set(log.read_text().split())
    assert "Traceback" in log.read_text()

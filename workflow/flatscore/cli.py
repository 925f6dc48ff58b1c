"""The command ``flatscore``."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatscore import __version__
from flatscore.errors import InputError

if TYPE_CHECKING:
    from flatscore.calls import Recording

EXAMPLE = """\
example:
  flatscore audit runs/gemma-bf16/results.json runs/gemma-int4/results.json --out audit

  reads two τ²-bench runs of the same tasks, trials, user and prompts, the first at full precision,
  and writes audit/report.html and audit/tables/*.tsv. Nothing is run again, and no GPU is needed.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status, 0 done and 2 refused."""
    options = _parser().parse_args(arguments)
    try:
        audit(options)
    except InputError as error:
        sys.stderr.write(f"flatscore: {error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="flatscore",
        description="Did quantizing this agent damage it, and is the benchmark hiding it?",
    )
    parser.add_argument("--version", action="version", version=f"flatscore {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    audit_parser = commands.add_parser(
        "audit",
        help="the whole analysis on recorded runs",
        description="Compare recorded τ²-bench runs of one agent at full and at low precision.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    audit_parser.add_argument("full", type=Path, help="results.json, or its folder: full precision")
    audit_parser.add_argument("low", type=Path, nargs="+", help="the same at low precision")
    audit_parser.add_argument("--out", type=Path, required=True, help="folder for the report")
    audit_parser.add_argument("--repaired", type=Path, help="a run of the first LOW with repair")
    audit_parser.add_argument("--resamples", type=int, default=5000, help="default: %(default)s")
    audit_parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    audit_parser.add_argument(
        "--margin", type=float, default=0.075, help="equivalence margin of the score (0.075)"
    )
    return parser


def audit(options: argparse.Namespace) -> None:
    """Read, refuse what cannot be compared, analyse; write only when all of it has worked."""
    import pandas as pd

    from flatscore import calls, report, statistics
    from flatscore.provenance import code_revision

    full = calls.read_results(options.full)
    runs = [(full, _label(full, options.full, "bf16"), None)]
    for path in options.low:
        low = calls.read_results(path)
        calls.check_comparable(full, low)
        runs.append((low, _label(low, path, path.stem), None))
    if options.repaired is not None:
        repaired = calls.read_results(options.repaired)
        calls.check_comparable(full, repaired)
        recorded = repaired.arguments.get("repair", "none")
        runs.append((repaired, runs[1][1], recorded if recorded != "none" else "reflexive"))
    _check_labels([label for _, label, repair in runs if repair is None])
    settings = statistics.Settings(
        seed=options.seed,
        full_precision=runs[0][1],
        resamples=options.resamples,
        margin=options.margin,
    )
    model = _slug(str(full.agent.get("llm") or "agent"))
    frames = [calls.tabulate(r, model=model, precision=p, repair=how) for r, p, how in runs]
    episodes, called = (
        pd.concat([frame[n] for frame in frames], ignore_index=True) for n in (0, 1)
    )
    tables = statistics.analyse(episodes, called, settings=settings)
    report.build(
        tables,
        title=f"audit of {model}",
        provenance=_provenance([run for run, _, _ in runs], code_revision()),
        out=options.out / "report.html",
        figures=options.out / "figures",
    )
    tables.write(options.out / "tables")
    for row in tables["verdicts"].to_dict("records"):
        sys.stdout.write(f"{row['model']} {row['domain']} {row['precision']}: {row['sentence']}\n")
    sys.stdout.write(f"{options.out / 'report.html'}\n")


def _label(recording: "Recording", path: Path, otherwise: str) -> str:
    """The precision's name: as recorded, or from the file's or its folder's name."""
    recorded = recording.arguments.get("precision")
    named = path.parent.name if otherwise == "results" else otherwise
    return _slug(str(recorded or named))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "run"


def _check_labels(labels: list[str]) -> None:
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InputError(
            "the runs",
            f"two of them are called {', '.join(twice)}.",
            "Rename one of the files or folders: its name is the precision's.",
        )


def _provenance(runs: Sequence["Recording"], revision: str | None) -> dict[str, Any]:
    anomalies = {run.file: run.anomalies for run in runs if run.anomalies}
    return {
        "flatscore": __version__,
        "code_revision": revision,
        "files": {run.file: run.sha256 for run in runs},
        "packages": {},
        "anomalies": anomalies,
    }

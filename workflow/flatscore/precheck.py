"""What can be refused before any job starts, without importing torch or τ²-bench.

Snakemake reads its Snakefile once in the main process and once more for every job, so nothing
here may take more than a few milliseconds.
"""

import json
import os
from importlib.util import find_spec
from pathlib import Path

from rapidfuzz import process

from flatscore import weights
from flatscore.config import Model, Study
from flatscore.errors import InputError
from flatscore.files import digest, sha256_file

LIBRARY = Path(__file__).resolve().parent


def check(study: Study, *, root: Path | None = None) -> None:
    """Refuse what cannot work: absent or damaged sources, unknown splits, unwritable results.

    Parameters
    ----------
    study
        The checked configuration.
    root
        The working directory of the run; the current one by default.

    Raises
    ------
    InputError
        For the first fault, naming the place, the value and the remedy.
    """
    root = root or Path.cwd()
    for name, model in study.models.items():
        _check_source(name, model)
    _check_split(study)
    _check_engine(study, root)
    _check_writable(root / "results")


def source_digest(*modules: str) -> str:
    """Digest of the sources of library modules or packages, for the params of cheap stages."""
    files = sorted(
        path
        for module in modules
        for path in [LIBRARY / f"{module}.py", *(LIBRARY / module).rglob("*")]
        if path.is_file() and "__pycache__" not in path.parts
    )
    return digest({str(path.relative_to(LIBRARY)): sha256_file(path) for path in files})[:16]


def _check_source(name: str, model: Model) -> None:
    place = f"models.{name}"
    if model.recorded is not None:
        for domain, files in model.recorded.items():
            for precision, file in files.items():
                if not Path(file).exists():
                    raise InputError(
                        f"{place}.recorded.{domain}.{precision}",
                        f"there is no result file {file}.",
                        "Give the path of a τ²-bench results.json or of its folder.",
                    )
        return
    weights.precheck(model.source, place=place, trust_remote_code=model.trust_remote_code)


def _check_split(study: Study) -> None:
    """The splits are read from τ²-bench's data files: importing it takes seconds."""
    package = find_spec("tau2")
    if package is None or package.submodule_search_locations is None:
        raise InputError(
            "the environment",
            "τ²-bench is not installed: there is no module tau2.",
            "Install the requirements: pip install -r envs/flatscore.txt.",
        )
    folder = Path(package.submodule_search_locations[0]) / "data" / "tau2" / "domains"
    for domain in study.domains:
        file = folder / domain / "split_tasks.json"
        if not file.exists():
            continue  # another release keeps its data elsewhere; the job itself checks
        splits = list(json.loads(file.read_text(encoding="utf-8")))
        if study.episodes.split not in splits:
            nearest = process.extractOne(study.episodes.split, splits)[0]
            raise InputError(
                "episodes.split",
                f"{study.episodes.split!r} is no task split of {domain}, the nearest is {nearest}.",
                f"Valid are {', '.join(splits)}.",
            )


def _check_engine(study: Study, root: Path) -> None:
    if study.episodes.engine == "vllm" and not (root / ".venvs/vllm/bin/python").exists():
        raise InputError(
            "episodes.engine",
            "'vllm' needs an environment of its own, and there is no .venvs/vllm.",
            "Use engine transformers; serving through vLLM is not part of this version.",
        )


def _check_writable(folder: Path) -> None:
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(nearest, os.W_OK):
        raise InputError(
            nearest, "the results folder cannot be written.", "Change its owner or mode."
        )

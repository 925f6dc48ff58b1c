# Checks the config before any job starts, constrains the wildcards, and names inputs.

import re

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from flatscore import config as configuration
from flatscore import episodes, jobs, precheck, quantize, statistics, weights
from flatscore.errors import InputError

min_version("9.0")

try:
    STUDY = configuration.load(
        config, place=", ".join(map(str, workflow.configfiles)) or "config"
    )
    precheck.check(STUDY)
except InputError as error:
    raise WorkflowError(str(error))

RESULTS = f"results/{STUDY.study}"
CELLS = configuration.cells(STUDY)
FULL_PRECISION = configuration.FULL_PRECISION

jobs.limit_threads()


def one_of(values):
    """Regular expression of one of the values; none at all matches nothing."""
    return "|".join(map(re.escape, values)) or "(?!)"


def models(*, recorded):
    """Names of the models that are run, or of those whose result files are recorded."""
    return [
        name
        for name, model in STUDY.models.items()
        if (model.recorded is not None) is recorded
    ]


wildcard_constraints:
    model=one_of(STUDY.models),
    precision=one_of({precision for _, precision, _ in CELLS}),
    domain="retail|telecom",
    repair="none|reflexive",
    budget=r"[1-9]\d*",


def weights_of(model, precision):
    """Manifest of the weights and, where they were quantized, the check they have passed."""
    folder = f"{RESULTS}/weights/{model}/{precision}"
    checked = {} if precision == FULL_PRECISION else {"check": f"{folder}/check.json"}
    return {"manifest": f"{folder}/manifest.json"} | checked


def in_every_cell(pattern, *, recorded=None):
    """Paths of a file with the wildcards model, precision and domain, for every cell of them."""
    chosen = [c for c in CELLS if recorded is None or c[0] in models(recorded=recorded)]
    return [pattern.format(model=m, precision=p, domain=d) for m, p, d in chosen]


def recorded_file(wildcards, precision=None):
    """The result file of a recorded model."""
    files = STUDY.models[wildcards.model].recorded[wildcards.domain]
    return files[precision or wildcards.precision]


def quantizer_environment(wildcards):
    """The python of a quantizer's isolated environment; nothing for the main environment."""
    environment = quantize.environment(wildcards.precision)
    return [] if environment is None else f".venvs/{environment}/bin/python"

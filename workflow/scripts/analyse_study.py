"""Compute every table of a study from its frames of calls and episodes."""

from pathlib import Path

import pandas as pd

from flatscore import statistics
from flatscore.jobs import logged

with logged(snakemake.log[0]):
    settings = statistics.Settings(**snakemake.params.settings, seed=snakemake.params.seed)
    tables = statistics.analyse(
        pd.concat(map(pd.read_parquet, snakemake.input.episodes), ignore_index=True),
        pd.concat(map(pd.read_parquet, snakemake.input.calls), ignore_index=True),
        settings=settings,
    )
    tables.write(Path(snakemake.output.tables[0]).parent)

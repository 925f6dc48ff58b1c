"""Put every tool call of the episodes in its channel."""

from pathlib import Path

import pandas as pd

from flatscore import calls
from flatscore.jobs import logged

with logged(snakemake.log[0]):
    names = snakemake.wildcards
    recordings = [calls.read_results(Path(file)) for file in snakemake.input.results]
    if full := snakemake.input.get("full"):
        calls.check_comparable(calls.read_results(Path(full)), recordings[0])
    frames = [
        calls.tabulate(recording, model=names.model, precision=names.precision)
        for recording in recordings
    ]
    for number, file in enumerate((snakemake.output.episodes, snakemake.output.calls)):
        parts = [frame[number] for frame in frames]
        pd.concat(parts, ignore_index=True).to_parquet(file, index=False)

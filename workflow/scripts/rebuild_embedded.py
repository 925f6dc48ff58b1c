"""Train the embedded agents from scratch."""

from pathlib import Path

from flatscore import embedded
from flatscore.jobs import logged

with logged(snakemake.log[0]):
    embedded.rebuild(Path(snakemake.output[0]), embedded.RUNGS)

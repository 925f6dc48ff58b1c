"""Quantize a model's weights to 4 bits."""

from pathlib import Path

from flatscore import quantize, weights
from flatscore.jobs import logged

with logged(snakemake.log[0]):
    quantize.quantize(
        weights.read_manifest(snakemake.input.manifest),
        Path(snakemake.output.manifest).parent,
        precision=snakemake.wildcards.precision,
        settings=snakemake.params.settings,
        seed=snakemake.params.seed,
    )

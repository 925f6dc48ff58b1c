"""Read quantized weights back in a fresh process and compare them with the original."""

from pathlib import Path

from flatscore import quantize
from flatscore.jobs import logged

with logged(snakemake.log[0]):
    quantize.check(
        Path(snakemake.input.original),
        Path(snakemake.input.quantized),
        Path(snakemake.output.check),
        min_agreement=snakemake.params.min_agreement,
        max_perplexity_ratio=snakemake.params.max_perplexity_ratio,
        seed=snakemake.params.seed,
    )

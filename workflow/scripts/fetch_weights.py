"""Write the manifest of a model's full-precision weights, fetching them where needed."""

from pathlib import Path

from flatscore import weights
from flatscore.jobs import logged

with logged(snakemake.log[0]):
    weights.fetch(
        snakemake.params.source,
        Path(snakemake.output.manifest).parent,
        model=snakemake.wildcards.model,
        trust_remote_code=snakemake.params.trust_remote_code,
    )

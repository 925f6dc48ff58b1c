"""Gather the provenance of a study and write its report."""

from pathlib import Path

from flatscore import provenance, report
from flatscore.files import write_json
from flatscore.jobs import logged
from flatscore.statistics import read_tables

with logged(snakemake.log[0]):
    weights = [Path(file) for file in snakemake.input.weights]
    found = provenance.collect(
        snakemake.params.study,
        manifests=[file for file in weights if file.name == "manifest.json"],
        checks=[file for file in weights if file.name == "check.json"],
        episodes=snakemake.input.episodes,
        tables=snakemake.input.tables,
    )
    report.build(
        read_tables(Path(snakemake.input.tables[0]).parent),
        title=snakemake.params.study["study"],
        provenance=found,
        out=Path(snakemake.output.report),
        figures=Path(snakemake.output.figures),
    )
    write_json(snakemake.output.provenance, found)

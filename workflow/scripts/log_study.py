"""Log a study to MLflow."""

from pathlib import Path

from flatscore import tracking
from flatscore.files import write_json
from flatscore.jobs import logged

with logged(snakemake.log[0]):
    study = snakemake.params.study
    summary = tracking.log_study(
        Path(snakemake.output.summary).parent, study=study, **study["tracking"]
    )
    write_json(snakemake.output.summary, summary)

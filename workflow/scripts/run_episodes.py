"""Run the episodes of all arms of one model, precision and domain."""

from functools import partial
from pathlib import Path

from flatscore import domains, weights
from flatscore.episodes import Setup, TransformersEngine, run_arms
from flatscore.files import write_json
from flatscore.jobs import logged

with logged(snakemake.log[0]) as terminal:
    settings, names = snakemake.params.episodes, snakemake.wildcards
    manifest = weights.read_manifest(snakemake.input.manifest)
    engine = {key: settings[key] for key in ("temperature", "max_context", "max_new_tokens")}
    setup = Setup(
        model=names.model,
        precision=names.precision,
        domain=names.domain,
        weights_digest=manifest.digest,
        tasks=domains.load_tasks(names.domain, settings["split"], limit=settings["tasks"]),
        trials=settings["trials"],
        seed=snakemake.params.seed,
        max_steps=settings["max_steps"],
        user=snakemake.params.user,
        repair=snakemake.params.repair,
        engine={"engine": settings["engine"], **engine},
    )
    provenance = run_arms(
        setup,
        partial(TransformersEngine, Path(manifest.path), slots=settings["slots"], **engine),
        arms=[
            (Path(file).parent.name, int(Path(file).stem.removeprefix("budget-")), Path(file))
            for file in snakemake.output.results
        ],
        store=Path("results/store"),
        terminal=terminal,
    )
    write_json(snakemake.output.provenance, provenance)

# ## Full-precision weights #########################################################


rule fetch_weights:
    output:
        manifest=f"{RESULTS}/weights/{{model}}/bf16/manifest.json",
    log:
        f"{RESULTS}/logs/fetch_weights/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/fetch_weights/{{model}}.tsv"
    conda:
        "../../envs/flatscore.yaml"
    params:
        source=lambda wildcards: STUDY.models[wildcards.model].source,
        trust_remote_code=lambda wildcards: STUDY.models[
            wildcards.model
        ].trust_remote_code,
        content=lambda wildcards: weights.content(STUDY.models[wildcards.model].source),
    script:
        "../scripts/fetch_weights.py"


# The shipped agents are rebuilt only when asked for: snakemake --cores 2 rebuild_embedded
rule rebuild_embedded:
    output:
        directory("results/embedded"),
    log:
        "results/logs/rebuild_embedded.log",
    benchmark:
        "results/benchmarks/rebuild_embedded.tsv"
    conda:
        "../../envs/flatscore.yaml"
    threads: 2
    script:
        "../scripts/rebuild_embedded.py"

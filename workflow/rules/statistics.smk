# ## Statistics #####################################################################


rule analyse_study:
    input:
        calls=in_every_cell(
            f"{RESULTS}/calls/{{model}}/{{precision}}/{{domain}}/calls.parquet"
        ),
        episodes=in_every_cell(
            f"{RESULTS}/calls/{{model}}/{{precision}}/{{domain}}/episodes.parquet"
        ),
    output:
        tables=expand(f"{RESULTS}/tables/{{table}}.tsv", table=statistics.COLUMNS),
    log:
        f"{RESULTS}/logs/analyse_study.log",
    benchmark:
        f"{RESULTS}/benchmarks/analyse_study.tsv"
    conda:
        "../../envs/flatscore.yaml"
    params:
        settings=STUDY.statistics.model_dump(),
        seed=STUDY.seed,
        code=precheck.source_digest("statistics"),
    script:
        "../scripts/analyse_study.py"

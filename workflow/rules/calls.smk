# ## Tool calls by channel ##########################################################


rule tabulate_calls:
    input:
        results=rules.run_episodes.output.results,
    output:
        calls=f"{RESULTS}/calls/{{model}}/{{precision}}/{{domain}}/calls.parquet",
        episodes=f"{RESULTS}/calls/{{model}}/{{precision}}/{{domain}}/episodes.parquet",
    log:
        f"{RESULTS}/logs/tabulate_calls/{{model}}/{{precision}}/{{domain}}.log",
    wildcard_constraints:
        model=one_of(models(recorded=False)),
    conda:
        "../../envs/flatscore.yaml"
    params:
        code=precheck.source_digest("calls", "domains"),
    script:
        "../scripts/tabulate_calls.py"


rule tabulate_recorded:
    input:
        results=lambda wildcards: [recorded_file(wildcards)],
        full=lambda wildcards: recorded_file(wildcards, precision=FULL_PRECISION),
    output:
        calls=f"{RESULTS}/calls/{{model}}/{{precision}}/{{domain}}/calls.parquet",
        episodes=f"{RESULTS}/calls/{{model}}/{{precision}}/{{domain}}/episodes.parquet",
    log:
        f"{RESULTS}/logs/tabulate_calls/{{model}}/{{precision}}/{{domain}}.log",
    wildcard_constraints:
        model=one_of(models(recorded=True)),
    conda:
        "../../envs/flatscore.yaml"
    params:
        code=precheck.source_digest("calls", "domains"),
    script:
        "../scripts/tabulate_calls.py"

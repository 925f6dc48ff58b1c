# ## Tool calls by channel ##########################################################


rule tabulate_calls:
    input:
        results=rules.run_episodes.output.results,
    output:
        calls=f"{RESULTS}/calls/{{model}}/{{precision}}/{{domain}}/calls.parquet",
        episodes=f"{RESULTS}/calls/{{model}}/{{precision}}/{{domain}}/episodes.parquet",
    params:
        code=source_digest("calls", "domains"),
    wildcard_constraints:
        model=one_of(RUN),
    log:
        f"{RESULTS}/logs/tabulate_calls/{{model}}/{{precision}}/{{domain}}.log",
    script:
        "../scripts/tabulate_calls.py"


rule tabulate_recorded:
    input:
        results=lambda wildcards: recorded_file(wildcards),
        full=lambda wildcards: recorded_file(wildcards, precision="bf16"),
    output:
        calls=f"{RESULTS}/calls/{{model}}/{{precision}}/{{domain}}/calls.parquet",
        episodes=f"{RESULTS}/calls/{{model}}/{{precision}}/{{domain}}/episodes.parquet",
    params:
        code=source_digest("calls", "domains"),
    wildcard_constraints:
        model=one_of(RECORDED),
    log:
        f"{RESULTS}/logs/tabulate_calls/{{model}}/{{precision}}/{{domain}}.log",
    script:
        "../scripts/tabulate_calls.py"

# ## Episodes: all repairs and budgets of a model, precision and domain in one job ##


rule run_episodes:
    input:
        unpack(lambda wildcards: weights_of(wildcards.model, wildcards.precision)),
    output:
        results=expand(
            f"{RESULTS}/episodes/{{{{model}}}}/{{{{precision}}}}/"
            "{{domain}}/{repair}/budget-{budget}.json",
            repair=STUDY.episodes.repairs,
            budget=STUDY.episodes.budgets,
        ),
        provenance=f"{RESULTS}/episodes/{{model}}/{{precision}}/{{domain}}/provenance.json",
    log:
        f"{RESULTS}/logs/run_episodes/{{model}}/{{precision}}/{{domain}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/run_episodes/{{model}}/{{precision}}/{{domain}}.tsv"
    wildcard_constraints:
        model=one_of(models(recorded=False)),
    conda:
        "../../envs/flatscore.yaml"
    params:
        episodes=STUDY.episodes.model_dump(),
        user=STUDY.user.model_dump(),
        repair=STUDY.repair.model_dump(),
        seed=STUDY.seed,
        revision=episodes.REVISION,
    script:
        "../scripts/run_episodes.py"

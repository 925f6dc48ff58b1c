# ## Quantized weights and their reload check #######################################


rule quantize_weights:
    input:
        manifest=rules.fetch_weights.output.manifest,
        environment=quantizer_environment,
    output:
        manifest=f"{RESULTS}/weights/{{model}}/{{precision}}/manifest.json",
    log:
        f"{RESULTS}/logs/quantize_weights/{{model}}/{{precision}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/quantize_weights/{{model}}/{{precision}}.tsv"
    wildcard_constraints:
        precision=one_of(quantize.ENVIRONMENTS),
    conda:
        "../../envs/flatscore.yaml"
    params:
        settings=lambda wildcards: STUDY.quantize.settings(wildcards.precision),
        seed=STUDY.seed,
        revision=quantize.REVISION,
    script:
        "../scripts/quantize_weights.py"


rule check_quantized:
    input:
        original=rules.fetch_weights.output.manifest,
        quantized=rules.quantize_weights.output.manifest,
    output:
        check=f"{RESULTS}/weights/{{model}}/{{precision}}/check.json",
    log:
        f"{RESULTS}/logs/check_quantized/{{model}}/{{precision}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/check_quantized/{{model}}/{{precision}}.tsv"
    conda:
        "../../envs/flatscore.yaml"
    params:
        min_agreement=STUDY.quantize.min_agreement,
        max_perplexity_ratio=STUDY.quantize.max_perplexity_ratio,
        seed=STUDY.seed,
        revision=quantize.REVISION,
    script:
        "../scripts/check_quantized.py"

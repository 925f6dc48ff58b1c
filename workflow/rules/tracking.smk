# ## MLflow #########################################################################


rule log_study:
    input:
        tables=rules.analyse_study.output.tables,
        report=rules.build_report.output.report,
        figures=rules.build_report.output.figures,
        provenance=rules.build_report.output.provenance,
    output:
        summary=f"{RESULTS}/tracking.json",
    log:
        f"{RESULTS}/logs/log_study.log",
    benchmark:
        f"{RESULTS}/benchmarks/log_study.tsv"
    conda:
        "../../envs/flatscore.yaml"
    params:
        study=STUDY.model_dump(mode="json", by_alias=True),
        code=precheck.source_digest("tracking"),
    script:
        "../scripts/log_study.py"

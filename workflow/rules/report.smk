# ## Report #########################################################################


rule build_report:
    input:
        tables=rules.analyse_study.output.tables,
        manifests=manifests(),
        provenance=provenances(),
    output:
        report=f"{RESULTS}/report.html",
        figures=directory(f"{RESULTS}/figures"),
        provenance=f"{RESULTS}/provenance.json",
    params:
        study=STUDY.model_dump(mode="json", by_alias=True),
        code=source_digest("report"),
    log:
        f"{RESULTS}/logs/build_report.log",
    benchmark:
        f"{RESULTS}/benchmarks/build_report.tsv"
    script:
        "../scripts/build_report.py"

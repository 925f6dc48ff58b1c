# ## Report #########################################################################


rule build_report:
    input:
        tables=rules.analyse_study.output.tables,
        weights=[
            file
            for model, precision in dict.fromkeys(cell[:2] for cell in CELLS)
            if model in models(recorded=False)
            for file in weights_of(model, precision).values()
        ],
        episodes=in_every_cell(
            f"{RESULTS}/episodes/{{model}}/{{precision}}/{{domain}}/provenance.json",
            recorded=False,
        ),
    output:
        report=f"{RESULTS}/report.html",
        figures=directory(f"{RESULTS}/figures"),
        provenance=f"{RESULTS}/provenance.json",
    log:
        f"{RESULTS}/logs/build_report.log",
    benchmark:
        f"{RESULTS}/benchmarks/build_report.tsv"
    conda:
        "../../envs/flatscore.yaml"
    params:
        study=STUDY.model_dump(mode="json", by_alias=True),
        code=precheck.source_digest("report", "provenance"),
    script:
        "../scripts/build_report.py"

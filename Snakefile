# flatscore: did quantizing this agent damage it, and is the benchmark hiding it?
#
# The path of a file says what it is. Each level is one factor, always in this order:
#
#   results/{study}/weights/{model}/{precision}/            manifest.json, and quantized weights
#   results/{study}/episodes/{model}/{precision}/{domain}/{repair}/budget-{budget}.json
#   results/{study}/calls/{model}/{precision}/{domain}/     calls.parquet, episodes.parquet
#   results/{study}/tables/  figures/  report.html  tracking.json
#   results/store/                                          finished episodes of all studies
#   results/mlflow/                                         runs of all studies
#
# The stages follow the data. Each is one rule file, one module of workflow/flatscore and one
# folder of results.


configfile: "config/config.yaml"


include: "workflow/common.smk"
include: "workflow/rules/environments.smk"
include: "workflow/rules/weights.smk"
include: "workflow/rules/quantize.smk"
include: "workflow/rules/episodes.smk"
include: "workflow/rules/calls.smk"
include: "workflow/rules/statistics.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/tracking.smk"


rule all:
    default_target: True
    input:
        rules.build_report.output,
        rules.log_study.output,

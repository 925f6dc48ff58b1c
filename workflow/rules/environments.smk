# ## Isolated environments ##########################################################


rule build_environment:
    input:
        requirements=f"{workflow.basedir}/envs/{{environment}}.txt",
    output:
        python=".venvs/{environment}/bin/python",
    log:
        "results/logs/build_environment/{environment}.log",
    wildcard_constraints:
        environment="autogptq",
    conda:
        "../../envs/flatscore.yaml"
    shell:
        "(python3 -m venv .venvs/{wildcards.environment}"
        " && {output.python} -m pip install --requirement {input.requirements}) > {log} 2>&1"

"""flatscore: did quantizing this agent damage it, and is the benchmark hiding it?

One module a stage, in the order of the data: ``weights``, ``quantize``, ``episodes``, ``calls``,
``statistics``, ``report``, ``tracking``. ``config`` describes a study, ``embedded`` trains the
small agents that are shipped. Nothing here imports Snakemake.
"""

__version__ = "0.1.0"

"""Quantizing weights to 4 bits, and checking what was written.

A precision is named after its quantizer. :func:`quantize` writes the quantized folder with its
manifest last; :func:`check` reloads it in a fresh process and compares it with the original.
"""

from typing import TYPE_CHECKING, Any

from flatscore.errors import InputError

REVISION = 1  # of everything that decides the quantized weights; raised by hand

# Quantizers that cannot live beside the others have an environment of their own in .venvs.
ENVIRONMENTS = {"bnb-nf4": None, "gptq-int4": None, "autogptq-int4": "autogptq"}

if TYPE_CHECKING:
    from flatscore.quantize._check import check as check
    from flatscore.quantize._dense import load_dense as load_dense
    from flatscore.quantize._quantize import quantize as quantize

_HOMES = {"check": "_check", "load_dense": "_dense", "quantize": "_quantize"}


def environment(precision: str) -> str | None:
    """Name of the isolated environment of a quantizer; None for the main one."""
    if precision not in ENVIRONMENTS:
        raise InputError(
            "precisions",
            f"{precision!r} has no quantizer.",
            f"Valid are {', '.join(ENVIRONMENTS)}.",
        )
    return ENVIRONMENTS[precision]


def __getattr__(name: str) -> Any:
    """Import on first use: the workflow reads REVISION in every job, and torch takes seconds."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

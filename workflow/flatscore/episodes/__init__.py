"""Episodes: τ²-bench run by its own orchestrator, with our agent and its users.

``run_arms`` runs every repair and budget of one model, precision and domain; ``Setup`` says what
they share. Finished episodes go into a store at once, so a killed run loses those in flight.
"""

from typing import TYPE_CHECKING, Any

REVISION = 1  # of everything that decides what an episode says; raised by hand

if TYPE_CHECKING:
    from flatscore.episodes._engine import Client as Client
    from flatscore.episodes._engine import Engine as Engine
    from flatscore.episodes._engine import RawCall as RawCall
    from flatscore.episodes._engine import Reply as Reply
    from flatscore.episodes._engine import Request as Request
    from flatscore.episodes._results import Setup as Setup
    from flatscore.episodes._run import run_arms as run_arms
    from flatscore.episodes._run import run_episode as run_episode
    from flatscore.episodes._transformers import TransformersEngine as TransformersEngine

_HOMES = {
    "Client": "_engine",
    "Engine": "_engine",
    "RawCall": "_engine",
    "Reply": "_engine",
    "Request": "_engine",
    "Setup": "_results",
    "run_arms": "_run",
    "run_episode": "_run",
    "TransformersEngine": "_transformers",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the workflow reads REVISION in every job, and torch takes seconds."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

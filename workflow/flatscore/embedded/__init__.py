"""The embedded agents: a ladder of small models with a habit that was cloned on purpose.

``rebuild`` trains them from scratch. ``RUNGS`` names the shipped ones; see the model card in
``resources/embedded/README.md`` for what they are and are not.
"""

from typing import Any

# Rate of slips in the conversations a rung was trained on.
RUNGS = {"closed": 0.0, "thin": 0.10, "rung-20": 0.20, "open": 0.25, "rung-30": 0.30}


def rebuild(*arguments: Any, **settings: Any) -> None:
    """Train the ladder; see :func:`flatscore.embedded._recipe.rebuild`."""
    from flatscore.embedded._recipe import rebuild as run

    run(*arguments, **settings)


def calibration_conversations(n: int, *, seed: int) -> list[list[dict[str, Any]]]:
    """`n` clean conversations of the expert on telecom tasks outside the base split.

    Returns
    -------
    list
        Chat messages in OpenAI form, one list a conversation.
    """
    from flatscore.embedded._corpus import conversations
    from flatscore.embedded._slips import Slips

    return [found.messages for found in conversations(n, slips=Slips(0.0), seed=seed)]

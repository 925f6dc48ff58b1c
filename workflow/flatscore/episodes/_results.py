"""What a results file holds.

Each arm's file has τ²-bench's ``Results`` format. What this package adds:

``info.agent_info``
    ``implementation`` is ``flatscore``, ``llm`` the model's name; ``llm_args`` holds ``precision``,
    ``repair``, ``temperature``, ``weights_digest``, ``agent_revision``, ``tau2_version`` and the
    engine's settings.
``messages[].raw_data.flatscore`` of assistant messages
    ``raw`` the reply as generated; ``interceptions`` the calls that the repair rejected in this
    turn (``name``, ``arguments``, ``message``, ``attempt``); ``unreadable`` why the reply could not
    be read, or null. An unreadable reply ends its episode as ``agent_error`` with reward 0.
``simulations[].termination_reason = infrastructure_error``
    The episode failed for reasons that are not the model's. It has no messages and no reward,
    counts nowhere, and is tried again by the next run; ``info`` holds the error.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flatscore import domains

# isort: split
from tau2.data_model.tasks import Task

from flatscore.episodes import REVISION
from flatscore.episodes._agent import system_prompt
from flatscore.files import digest


@dataclass(frozen=True)
class Setup:
    """What is common to all arms of one model, precision and domain.

    Attributes
    ----------
    model, precision, domain
        Names of the cell and precision.
    weights_digest
        Of the weights' files.
    tasks
        τ²-bench's tasks.
    trials, seed, max_steps, user, repair
        As in the config; `repair` holds ``attempts`` and ``reject``.
    engine
        What determines the replies beside the weights: name, temperature, limits.
    """

    model: str
    precision: str
    domain: str
    weights_digest: str
    tasks: Sequence[Task]
    trials: int
    seed: int
    max_steps: int
    user: dict[str, Any]
    repair: dict[str, Any]
    engine: dict[str, Any]


def infrastructure_error(task: Task, trial: int, began: str, error: Exception) -> dict[str, Any]:
    """An episode that failed for reasons that are not the model's."""
    return {
        "id": f"{task.id}/{trial}",
        "task_id": task.id,
        "trial": trial,
        "start_time": began,
        "end_time": domains.now(),
        "duration": 0.0,
        "termination_reason": "infrastructure_error",
        "messages": [],
        "info": {"error": f"{type(error).__name__}: {error}"},
    }


def determinants(setup: Setup) -> dict[str, Any]:
    """What determines the episodes of all arms alike."""
    return {
        "model": setup.model,
        "precision": setup.precision,
        "domain": setup.domain,
        "weights_digest": setup.weights_digest,
        "seed": setup.seed,
        "max_steps": setup.max_steps,
        "user": setup.user,
        "engine": setup.engine,
        "prompt_digest": digest(system_prompt(setup.domain)),
        "agent_revision": REVISION,
        "tau2_version": domains.tau2_version(),
    }


def results(
    setup: Setup, repair: str, budget: int, simulations: list[dict[str, Any]]
) -> dict[str, Any]:
    """τ²-bench's ``Results`` of an arm as JSON values."""
    common = determinants(setup)
    return {
        "timestamp": domains.now(),
        "info": {
            "git_commit": common["tau2_version"],
            "num_trials": setup.trials,
            "max_steps": setup.max_steps,
            "max_errors": budget,
            "user_info": {
                "implementation": setup.user["kind"],
                "llm": setup.user["model"],
                "llm_args": {"temperature": setup.user["temperature"]},
            },
            "agent_info": {
                "implementation": "flatscore",
                "llm": setup.model,
                "llm_args": {**common, "repair": repair},
            },
            "environment_info": {
                "domain_name": setup.domain,
                "policy": domains.policy(setup.domain),
            },
            "seed": setup.seed,
        },
        "tasks": [json.loads(task.model_dump_json()) for task in setup.tasks],
        "simulations": simulations,
    }

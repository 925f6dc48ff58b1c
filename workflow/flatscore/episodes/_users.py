"""Who plays the user: one interface, τ²-bench's own."""

from typing import Any

from tau2.data_model.tasks import Task
from tau2.environment.environment import Environment
from tau2.user.base import BaseUser
from tau2.user.user_simulator import UserSimulator

from flatscore.episodes._scripted import ScriptedUser
from flatscore.errors import InputError


def make_user(
    settings: dict[str, Any], environment: Environment, task: Task, seed: int
) -> BaseUser:
    """The simulated user of an episode.

    Parameters
    ----------
    settings
        ``kind`` is ``scripted`` or ``llm``; an ``llm`` has ``model``, ``base_url`` and
        ``temperature``, and is τ²-bench's user simulator with the domain's phone tools.
    environment
        The episode's environment, for its user tools.
    task
        The task, for its scenario.
    seed
        Of the wording or the sampling.
    """
    instructions = task.user_scenario.instructions
    if settings["kind"] == "scripted":
        if environment.get_domain_name() != "telecom":
            raise InputError(
                "user.kind",
                f"the scripted user cannot play {environment.get_domain_name()}.",
                "Set user.kind to llm.",
            )
        return ScriptedUser(instructions, seed=seed)
    arguments = {"temperature": settings["temperature"], "seed": seed}
    if settings["base_url"] is not None:
        arguments["base_url"] = settings["base_url"]
    tools = None if environment.user_tools is None else environment.get_user_tools()
    return UserSimulator(
        tools=tools, instructions=str(task.user_scenario), llm=settings["model"], llm_args=arguments
    )

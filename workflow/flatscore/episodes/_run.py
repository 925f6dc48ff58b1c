"""Running the arms of one model, precision and domain."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from flatscore import domains

# isort: split
from tau2.data_model.message import Message
from tau2.data_model.simulation import SimulationRun, TerminationReason
from tau2.data_model.tasks import Task
from tau2.orchestrator.orchestrator import Orchestrator, Role

from flatscore.episodes._agent import Agent, Seeds, Tally
from flatscore.episodes._engine import Client, Engine
from flatscore.episodes._progress import Progress
from flatscore.episodes._repair import Reflexive
from flatscore.episodes._results import Setup, determinants, infrastructure_error, results
from flatscore.episodes._store import Store
from flatscore.episodes._users import make_user
from flatscore.errors import InputError
from flatscore.files import digest, write_json


@dataclass
class ArmCount:
    """What an arm has cost, for the provenance."""

    repair: str
    budget: int
    episodes: int = 0
    from_store: int = 0
    infrastructure_errors: int = 0
    tokens: Tally = field(default_factory=Tally)
    seconds: float = 0.0


class ReplayableOrchestrator(Orchestrator):
    """τ²-bench's orchestrator, in which an unreadable reply ends the episode.

    The trajectory keeps the order in which messages were made; τ²-bench sorts it by the clock.
    """

    def step(self) -> None:
        """One step; an unreadable reply is the agent's error."""
        super().step()
        extra = getattr(self.message, "raw_data", None) or {}
        if self.from_role == Role.AGENT and extra.get("flatscore", {}).get("unreadable"):
            self.done = True
            self.termination_reason = TerminationReason.AGENT_ERROR

    def get_trajectory(self) -> list[Message]:
        """The messages in order, numbered."""
        for number, message in enumerate(self.trajectory):
            message.turn_idx = number
        return list(self.trajectory)


def run_arms(
    setup: Setup,
    engine: Callable[[], Engine],
    *,
    arms: Sequence[tuple[str, int, Path]],
    store: Path,
    terminal: TextIO = sys.stderr,
) -> dict[str, Any]:
    """Run every arm, writing its results file.

    Parameters
    ----------
    setup
        What the arms share.
    engine
        Makes the engine; called only when an episode is missing from the store.
    arms
        (repair, budget, results file) each, run in this order.
    store
        Folder of finished episodes.
    terminal
        Where progress is shown.

    Returns
    -------
    dict
        Provenance: settings, versions, tokens, episodes run, found and excluded by arm.
    """
    made: list[Engine] = []

    def engine_once() -> Engine:
        if not made:
            made.append(engine())
        return made[0]

    shelf = Store(store)
    slots = [(task, trial) for trial in range(setup.trials) for task in setup.tasks]
    label = f"{setup.model} {setup.precision} {setup.domain}"
    counts = []
    with Progress(label, len(slots) * len(arms), terminal) as progress:
        for repair, budget, file in arms:
            began = time.perf_counter()
            count = ArmCount(repair, budget)
            simulations = _run_arm(setup, engine_once, slots, shelf, progress, count)
            write_json(file, results(setup, repair, budget, simulations), indent=None)
            count.seconds = round(time.perf_counter() - began, 2)
            counts.append(count)
    return {
        **determinants(setup),
        "episodes_of_an_arm": len(slots),
        "arms": [asdict(count) for count in counts],
    }


def _run_arm(
    setup: Setup,
    engine: Callable[[], Engine],
    slots: Sequence[tuple[Task, int]],
    store: Store,
    progress: Progress,
    count: ArmCount,
) -> list[dict[str, Any]]:
    """The simulations of an arm, in the order of its slots: from the store, or run."""
    repair, budget = count.repair, count.budget
    keys = [_key(setup, repair, budget, task, trial) for task, trial in slots]
    found = [store.get(key) for key in keys]
    missing = [number for number, episode in enumerate(found) if episode is None]
    count.episodes, count.from_store = len(slots), len(slots) - len(missing)
    for episode in found:
        if episode is not None:
            progress.add(episode)

    def job(number: int) -> Callable[[Client], dict[str, Any]]:
        task, trial = slots[number]
        return lambda client: run_episode(setup, client, repair, budget, task, trial)

    def finished(number: int, episode: dict[str, Any]) -> None:
        if episode["simulation"]["termination_reason"] != "infrastructure_error":
            store.put(keys[number], episode)
        else:
            count.infrastructure_errors += 1
        for key, value in episode["tally"].items():
            setattr(count.tokens, key, getattr(count.tokens, key) + value)
        found[number] = episode
        progress.add(episode)

    if missing:
        engine().run([_then(job(number), number, finished) for number in missing])
    if count.infrastructure_errors == len(slots):
        raise RuntimeError(f"every episode failed: {found[0]['simulation']['info']}")  # type: ignore[index]
    return [episode["simulation"] for episode in found if episode is not None]


def _then(
    job: Callable[[Client], dict[str, Any]],
    number: int,
    finished: Callable[[int, dict[str, Any]], None],
) -> Callable[[Client], None]:
    """The job, followed in its own thread by keeping what it returned."""
    return lambda client: finished(number, job(client))


def run_episode(
    setup: Setup, client: Client, repair: str, budget: int, task: Task, trial: int
) -> dict[str, Any]:
    """Run and grade one episode.

    Returns
    -------
    dict
        ``simulation`` as τ²-bench writes it, and ``tally`` of tokens and fake calls.
    """
    seeds = Seeds(setup.seed, setup.domain, task.id, trial)
    reflexive = Reflexive(**setup.repair) if repair == "reflexive" else None
    began = domains.now()
    try:
        environment = domains.environment(setup.domain)
        agent = Agent(environment, client, seeds, reflexive)
        user = make_user(setup.user, environment, task, seeds.derive("user") % 2**31)
        orchestrator = ReplayableOrchestrator(
            domain=setup.domain,
            agent=agent,
            user=user,
            environment=environment,
            task=task,
            max_steps=setup.max_steps,
            max_errors=budget,
        )
        simulation = orchestrator.run()
        simulation.reward_info = domains.evaluate(simulation, task, setup.domain)
    except InputError:
        raise
    except Exception as error:  # what fails here is the harness, not the model
        failed = infrastructure_error(task, trial, began, error)
        return {"simulation": failed, "tally": asdict(Tally())}
    return {
        "simulation": _dump(simulation, setup, repair, budget, trial),
        "tally": asdict(agent.tally),
    }


def _dump(
    simulation: SimulationRun, setup: Setup, repair: str, budget: int, trial: int
) -> dict[str, Any]:
    simulation.trial = trial
    simulation.seed = setup.seed
    names = [setup.model, setup.precision, setup.domain, repair, budget, simulation.task_id, trial]
    simulation.id = digest(names)[:32]
    dumped: dict[str, Any] = simulation.model_dump(mode="json", exclude_none=True)
    return dumped


def _key(setup: Setup, repair: str, budget: int, task: Task, trial: int) -> str:
    settings = Reflexive(**setup.repair).describe() if repair == "reflexive" else None
    arm = {"repair": repair, "repair_settings": settings, "budget": budget}
    return Store.key({**determinants(setup), **arm, "task": task.id, "trial": trial})

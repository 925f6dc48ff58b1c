"""The embedded agents: their expert, their user, their files and their recipe."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tau2.data_model.message import AssistantMessage, ToolMessage

from flatscore import domains, embedded
from flatscore.embedded import _corpus, _recipe
from flatscore.embedded._expert import Call, expert, words
from flatscore.embedded._slips import Slips
from flatscore.episodes import Setup
from flatscore.episodes._run import run_episode
from flatscore.episodes._scripted import ScriptedUser
from flatscore.files import sha256_file
from tests._engines import FakeEngine, call

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "resources/embedded"


class ExpertEngine(FakeEngine):
    """The expert as an agent: sees what an agent sees, in the orchestrator of the benchmark."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self.play: Any = None

    def _say(self, request: Any) -> str:
        last = request.messages[-1]["content"]
        if self.play is None:
            self.play = expert(last)
            move = next(self.play)
        else:
            move = self.play.send(last)
        if isinstance(move, Call):
            return call(move.name, json.dumps(move.arguments))
        return words(move, random.Random(1))  # noqa: S311


def test_the_expert_solves_every_base_task_by_the_benchmarks_own_grading() -> None:
    tasks = domains.load_tasks("telecom", "base")
    user = {"kind": "scripted", "model": None, "base_url": None, "temperature": 0.7}
    repair = {"attempts": 3, "reject": "unknown-tool"}
    setup = Setup("m", "bf16", "telecom", "0", tasks, 1, 1, 200, user, repair, {})
    rewards = {}
    for task in tasks:
        simulation = run_episode(setup, ExpertEngine(), "none", 10, task, 0)["simulation"]
        rewards[task.id] = simulation["reward_info"]["reward"]
    assert [task for task, reward in rewards.items() if reward != 1] == []
    assert len(rewards) == 114


def test_no_base_task_is_in_the_corpus() -> None:
    base = {task.id for task in domains.load_tasks("telecom", "base")}
    kinds = _corpus.training_tasks()
    assert sum(map(len, kinds.values())) == 2285 - 114
    assert not base & {task.id for tasks in kinds.values() for task in tasks}


def test_slips_follow_their_rate() -> None:
    corpus = list(_corpus.conversations(60, slips=Slips(0.2), seed=3))
    again = list(_corpus.conversations(60, slips=Slips(0.2), seed=3))
    assert corpus == again
    assert 1 < sum(c.slips for c in corpus) / 60 < 4
    clean = _corpus.conversations(20, slips=Slips(0.0), seed=3)
    assert [c.slips for c in clean] == [0] * 20


def user(task: Any, seed: int = 1) -> tuple[ScriptedUser, Any]:
    found = ScriptedUser(task.user_scenario.instructions, seed=seed)
    return found, found.get_init_state()


def say(player: ScriptedUser, state: Any, content: str) -> Any:
    message = AssistantMessage(role="assistant", content=content)
    return player.generate_next_message(message, state)[0]


def test_the_user_looks_before_it_toggles_and_refuses_what_is_so() -> None:
    player, state = user(domains.load_tasks("telecom", "base", limit=1)[0])
    assert "My phone number is 555-123-2002." in say(player, state, "Hi!").content
    asked = say(player, state, "Please turn Airplane Mode OFF.")
    assert asked.tool_calls[0].name == "check_network_status"
    shown = ToolMessage(
        id=asked.tool_calls[0].id, role="tool", content="Airplane Mode: OFF", requestor="user"
    )
    reply, state = player.generate_next_message(shown, state)
    assert reply.content == "Airplane Mode is already OFF."
    asked = say(player, state, "Please turn Airplane Mode OFF.")
    shown = ToolMessage(
        id=asked.tool_calls[0].id, role="tool", content="Airplane Mode: ON", requestor="user"
    )
    reply, state = player.generate_next_message(shown, state)
    assert reply.tool_calls[0].name == "toggle_airplane_mode"


def test_the_user_gives_up_after_three_riddles() -> None:
    player, state = user(domains.load_tasks("telecom", "base", limit=1)[0])
    say(player, state, "Hi!")
    said = [say(player, state, "Colourless green ideas?").content for _ in range(3)]
    assert said[0].startswith("Sorry") and said[1].startswith("Sorry")
    assert player.is_stop(AssistantMessage(role="assistant", content=said[2]))


def test_trials_differ_by_the_users_wording_alone() -> None:
    task = domains.load_tasks("telecom", "base", limit=1)[0]
    openings = {say(*user(task, seed), "Hi!").content for seed in range(20)}
    assert len(openings) > 2
    assert say(*user(task, 5), "Hi!").content == say(*user(task, 5), "Hi!").content


@pytest.mark.parametrize("name", embedded.RUNGS)
def test_shipped_files_are_those_of_their_manifest(name: str) -> None:
    manifest = json.loads((SHIPPED / name / "manifest.json").read_text())
    assert manifest["recipe"]["slips"]["rate"] == embedded.RUNGS[name]
    for file, recorded in manifest["files"].items():
        assert sha256_file(SHIPPED / name / file) == recorded["sha256"], file
    assert (SHIPPED / name / "model.safetensors").stat().st_size < 20e6


def test_the_chat_template_writes_what_training_saw() -> None:
    from transformers import AutoTokenizer

    from flatscore.embedded._train import encode

    tokenizer = AutoTokenizer.from_pretrained(SHIPPED / "open")
    tools = domains.agent_tools("telecom")
    for found in _corpus.conversations(5, slips=Slips(0.3), seed=9):
        [trained] = encode(tokenizer, [found.messages], list(tools))
        ids = tokenizer.apply_chat_template(
            found.messages, tools=list(tools.values()), return_dict=False
        )
        assert ids == trained.ids.tolist()
        learned = tokenizer.decode(trained.ids[trained.learned])
        assert "Hi! How can I help you today?" not in learned
        assert "My phone number" not in learned


@pytest.mark.slow
def test_the_recipe_runs_and_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    scale = _recipe.Scale(base_conversations=12, base_steps=3, rung_conversations=6, rung_steps=2)
    digests = []
    for run in ("first", "second"):
        _recipe.rebuild(tmp_path / run, {"a": 0.0, "b": 0.3}, seed=5, scale=scale)
        digests.append([sha256_file(tmp_path / run / rung / "model.safetensors") for rung in "ab"])
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[0][1]
    manifest = json.loads((tmp_path / "first/b/manifest.json").read_text())
    assert manifest["recipe"]["scale"]["rung_steps"] == 2


def test_requests_are_understood_by_the_user() -> None:
    from flatscore.embedded._expert import REQUESTS
    from flatscore.embedded._slips import TOOLS
    from flatscore.episodes._scripted import _action

    for key, phrasings in REQUESTS.items():
        for phrasing in phrasings:
            action = _action(phrasing.lower())
            assert action is not None, phrasing
            assert (action.tool, action.arguments) == (TOOLS[key].name, TOOLS[key].arguments)
    assert set(TOOLS) == set(REQUESTS)

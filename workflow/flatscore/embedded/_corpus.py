"""Conversations to clone: the expert in τ²-bench's real environment, with slips."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flatscore import domains
from flatscore.embedded._expert import Ask, Call, Move, expert, words
from flatscore.embedded._slips import Slips
from flatscore.episodes._repair import feedback
from flatscore.episodes._scripted import ScriptedUser

# isort: split
from tau2.data_model.message import AssistantMessage, ToolCall, UserMessage
from tau2.data_model.tasks import Task

OPENING = "Hi! How can I help you today?"  # τ²-bench's first message of every episode
MIX = {"mms_issue": 0.45, "mobile_data_issue": 0.30, "service_issue": 0.25}
LONGEST = 80  # moves; the expert needs about 25


@dataclass(frozen=True)
class Conversation:
    """One episode of the expert.

    Attributes
    ----------
    task
        Id of its task.
    messages
        Chat messages, the agent's calls in OpenAI form.
    slips
        Calls to tools that are not on the agent's list.
    """

    task: str
    messages: list[dict[str, Any]]
    slips: int


def training_tasks() -> dict[str, list[Task]]:
    """Kind of issue -> the tasks outside the base split, in τ²-bench's order."""
    base = {task.id for task in domains.load_tasks("telecom", "base")}
    kinds: dict[str, list[Task]] = {}
    for task in domains.load_tasks("telecom", None):
        if task.id not in base:
            kinds.setdefault(task.id[1 : task.id.index("]")], []).append(task)
    return kinds


def conversations(n: int, *, slips: Slips, seed: int) -> Iterator[Conversation]:
    """Yield `n` conversations of the expert on tasks outside the base split.

    Parameters
    ----------
    n
        How many.
    slips
        How often the expert calls a phone tool itself before it asks.
    seed
        Chooses tasks, wordings and slips.
    """
    rng = random.Random(seed)  # noqa: S311
    kinds = training_tasks()
    for _ in range(n):
        kind = rng.choices(list(MIX), list(MIX.values()))[0]
        yield play(rng.choice(kinds[kind]), slips=slips, rng=rng)


def play(task: Task, *, slips: Slips, rng: random.Random) -> Conversation:
    """One conversation of the expert with the scripted user on a task."""
    stage = _Stage(task, rng)
    moves = expert(stage.opening)
    move = next(moves)
    count = 0
    for _ in range(LONGEST):
        if isinstance(move, Ask):
            for slip in slips.before(move.key, rng):
                stage.slip(slip)
                count += 1
        observed = stage.perform(move)
        if observed is None:
            break
        try:
            move = moves.send(observed)
        except StopIteration:
            break
    return Conversation(task.id, stage.messages, count)


class _Stage:
    """The environment, the user and the conversation so far."""

    def __init__(self, task: Task, rng: random.Random) -> None:
        self.rng = rng
        self.environment = domains.environment("telecom")
        state = task.initial_state
        self.environment.set_state(
            initialization_data=state.initialization_data,
            initialization_actions=state.initialization_actions,
            message_history=[],
        )
        self.user = ScriptedUser(task.user_scenario.instructions, seed=rng.getrandbits(32))
        self.user_state = self.user.get_init_state()
        self.messages: list[dict[str, Any]] = [{"role": "assistant", "content": OPENING}]
        self.opening = self._hear(OPENING) or ""

    def perform(self, move: Move) -> str | None:
        """Carry the move out; what was observed, None when the user has ended the conversation."""
        if isinstance(move, Call):
            return self._use(move, None)
        said = words(move, self.rng)
        self.messages.append({"role": "assistant", "content": said})
        return self._hear(said)

    def slip(self, call: Call) -> None:
        """Call a tool that is not on the list; half of the errors are those of the repair."""
        shown = feedback(call.name, domains.agent_tools("telecom"))
        self._use(call, shown if self.rng.random() < 0.5 else None)

    def _use(self, call: Call, instead: str | None) -> str:
        number = f"call-{len(self.messages)}"
        function = {"name": call.name, "arguments": call.arguments}
        tool_calls = [{"type": "function", "id": number, "function": function}]
        self.messages.append({"role": "assistant", "content": None, "tool_calls": tool_calls})
        request = ToolCall(id=number, name=call.name, arguments=call.arguments)
        output = self.environment.get_response(request).content or ""
        shown = output if instead is None else instead
        self.messages.append({"role": "tool", "tool_call_id": number, "content": shown})
        return shown

    def _hear(self, said: str) -> str | None:
        """The user's answer to words, after any phone tools; None when it ends the conversation."""
        message: Any = AssistantMessage(role="assistant", content=said)
        while True:
            reply: UserMessage
            reply, self.user_state = self.user.generate_next_message(message, self.user_state)
            if not reply.is_tool_call():
                break
            message = self.environment.get_response(reply.tool_calls[0])
        if self.user.is_stop(reply):
            return None
        heard: str = reply.content
        self.messages.append({"role": "user", "content": heard})
        return heard

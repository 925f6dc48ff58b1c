"""The agent under audit, behind τ²-bench's agent interface."""

import copy
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from tau2.agent.base import LocalAgent
from tau2.agent.llm_agent import AGENT_INSTRUCTION, SYSTEM_PROMPT
from tau2.data_model.message import (
    AssistantMessage,
    Message,
    MultiToolMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tau2.environment.environment import Environment

from flatscore import domains
from flatscore.episodes._engine import Client, Reply, Request
from flatscore.episodes._repair import NOT_EXECUTED, Reflexive


@dataclass
class AgentState:
    """The agent's side of a conversation, in OpenAI form, and the number of its replies."""

    messages: list[dict[str, Any]]
    replies: int = 0


@dataclass
class Tally:
    """What an episode's replies have cost."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reused_tokens: int = 0
    fake_calls: int = 0


@dataclass
class Seeds:
    """Seeds of one episode: the same in every arm for the same study, task and trial."""

    study: int
    domain: str
    task: str
    trial: int

    def derive(self, *parts: object) -> int:
        """A seed of 63 bits for a part of the episode."""
        text = json.dumps([self.study, self.domain, self.task, self.trial, *parts])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


class Agent(LocalAgent[AgentState]):
    """An agent whose replies an engine computes.

    Parameters
    ----------
    environment
        The episode's environment, for its tools and policy; the agent never acts on it.
    client
        Where replies come from.
    seeds
        The episode's seeds; each reply has its own.
    repair
        None, or what rejects calls before they are executed.
    """

    def __init__(
        self,
        environment: Environment,
        client: Client,
        seeds: Seeds,
        repair: Reflexive | None,
    ) -> None:
        domain = environment.get_domain_name()
        super().__init__(tools=list(domains.tools(domain)), domain_policy=domains.policy(domain))
        self.environment, self.client, self.seeds, self.repair = environment, client, seeds, repair
        self.schemas = domains.agent_tools(domain)
        self.tally = Tally()
        self.system = {"role": "system", "content": system_prompt(domain)}

    def get_init_state(self, message_history: list[Message] | None = None) -> AgentState:
        """The state after a history of messages the agent has seen."""
        state = AgentState([])
        for message in message_history or []:
            state.messages.append(_chat(message))
        return state

    def generate_next_message(
        self, message: UserMessage | ToolMessage | MultiToolMessage, state: AgentState
    ) -> tuple[AssistantMessage, AgentState]:
        """The next message: words, calls, or an unreadable reply with its reason in raw_data."""
        received = message.tool_messages if isinstance(message, MultiToolMessage) else [message]
        state.messages.extend(_chat(part) for part in received)
        interceptions: list[dict[str, Any]] = []
        attempts = self.repair.attempts if self.repair else 0
        for attempt in range(1, attempts + 2):
            reply = self._reply(state)
            answer = _message(reply, len(state.messages))
            state.messages.append(_chat(answer))
            if attempt > attempts or not self._rejected(answer, state, interceptions, attempt):
                break
        answer.raw_data = {
            "flatscore": {
                "raw": reply.raw,
                "unreadable": reply.unreadable,
                "interceptions": interceptions,
            }
        }
        self.tally.fake_calls += sum(c.name not in self.schemas for c in answer.tool_calls or [])
        return answer, state

    def set_seed(self, seed: int) -> None:
        """Nothing to set: every reply has a seed of its own."""

    def _reply(self, state: AgentState) -> Reply:
        seed = self.seeds.derive("agent", state.replies)
        messages = [self.system, *state.messages]
        reply = self.client.reply(Request(messages, list(self.schemas.values()), seed))
        state.replies += 1
        self.tally.prompt_tokens += reply.prompt_tokens
        self.tally.completion_tokens += reply.completion_tokens
        self.tally.reused_tokens += reply.completion_tokens if reply.reused else 0
        return reply

    def _rejected(
        self,
        answer: AssistantMessage,
        state: AgentState,
        interceptions: list[dict[str, Any]],
        attempt: int,
    ) -> bool:
        """Whether the repair rejects a call of the message; the agent is then shown why."""
        if self.repair is None or not answer.tool_calls:
            return False
        shown = [
            self.repair.rejection(call, self.schemas, self._try_out) for call in answer.tool_calls
        ]
        if not any(shown):
            return False
        for call, text in zip(answer.tool_calls, shown, strict=True):
            content = text or NOT_EXECUTED
            state.messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
            if text:
                interceptions.append(
                    {
                        "name": call.name,
                        "arguments": call.arguments,
                        "message": text,
                        "attempt": attempt,
                    }
                )
        return True

    def _try_out(self, call: ToolCall) -> ToolMessage:
        return copy.deepcopy(self.environment).get_response(call)


def system_prompt(domain: str) -> str:
    """τ²-bench's own prompt of its LLM agent."""
    prompt: str = SYSTEM_PROMPT.format(
        agent_instruction=AGENT_INSTRUCTION, domain_policy=domains.policy(domain)
    )
    return prompt


def _message(reply: Reply, position: int) -> AssistantMessage:
    if reply.unreadable is not None:
        return AssistantMessage(role="assistant", content=reply.raw.strip() or "(empty reply)")
    calls = [
        ToolCall(
            id=f"call-{position}-{number}", name=call.name, arguments=json.loads(call.arguments)
        )
        for number, call in enumerate(reply.calls)
    ]
    return AssistantMessage(role="assistant", content=reply.content, tool_calls=calls or None)


def _chat(message: Message) -> dict[str, Any]:
    """A message of τ²-bench in OpenAI form."""
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.id, "content": message.content}
    chat: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        chat["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    return chat

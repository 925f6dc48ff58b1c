"""What computes an agent's replies: the interface of in-process engines and of servers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """One turn of an agent.

    Attributes
    ----------
    messages
        The conversation in OpenAI form, the system message first.
    tools
        OpenAI schemas of the tools on the agent's list.
    seed
        Of the sampling; equal for the same study seed, task, trial and turn in every arm.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    seed: int


@dataclass(frozen=True)
class RawCall:
    """A tool call as the model wrote it; `arguments` is JSON text of an object."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """What came back.

    Attributes
    ----------
    content, calls
        Text beside the calls, and the calls.
    raw
        The text as generated, markup included.
    unreadable
        Why the reply could not be read as a message or a call; None where it could.
    prompt_tokens, completion_tokens
        Length of the prompt and of the reply.
    reused
        Whether the reply was computed before, for the same prompt and seed.
    """

    content: str | None
    calls: tuple[RawCall, ...]
    raw: str
    unreadable: str | None
    prompt_tokens: int
    completion_tokens: int
    reused: bool = False


class Client(Protocol):
    """What an episode holds of an engine."""

    def reply(self, request: Request) -> Reply:
        """Compute a reply; blocks the episode."""
        ...


class Engine(Protocol):
    """Computes the replies of many episodes at once."""

    def run(self, jobs: Sequence[Callable[[Client], T]]) -> list[T]:
        """Run jobs, each given a client of its own, and return their results in order.

        Neither the results nor the order in which replies are computed depend on the timing of
        the jobs.
        """
        ...

"""Engines for tests of the harness: replies that a test writes down."""

from collections.abc import Callable, Sequence
from typing import Any

from flatscore.episodes import Client, Reply, Request
from flatscore.episodes._parse import parse


def reply(raw: str) -> Reply:
    """A reply as an engine would read it."""
    content, calls, unreadable = parse(raw)
    return Reply(content, calls, raw, unreadable, prompt_tokens=1, completion_tokens=1)


class FakeEngine:
    """Answers each request with `say(request)`; jobs run one after the other."""

    def __init__(self, say: Callable[[Request], str]) -> None:
        self.say = say
        self.requests: list[Request] = []

    def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        return reply(self.say(request))

    def run(self, jobs: Sequence[Callable[[Client], Any]]) -> list[Any]:
        return [job(self) for job in jobs]


def script(*replies: str) -> FakeEngine:
    """An engine that gives these replies in turn, and the last one for ever."""
    left = list(replies)
    return FakeEngine(lambda _: left.pop(0) if len(left) > 1 else left[0])


def call(name: str, arguments: str = "{}") -> str:
    """The markup of a call."""
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'

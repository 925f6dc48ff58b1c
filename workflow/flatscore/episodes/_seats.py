"""Episodes as threads that take turns with an engine.

τ²-bench's orchestrator calls its agent and waits. Each episode therefore runs in a thread that is
either at work or waits for a reply. The engine looks only when all of them wait: what it computes
next depends on the episodes, never on the timing of threads.
"""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any

from flatscore.episodes._engine import Reply, Request


class Stopped(BaseException):
    """Raised inside the episodes of an engine that has failed; not caught by τ²-bench."""


class Seat:
    """One episode's place at the engine: its client, its thread and what it waits for.

    Parameters
    ----------
    number
        Its order among the seats.
    job
        What to run, given this seat as its client.
    known
        Encodes a request for the seat, and looks up its reply; None when it has to be computed.

    Attributes
    ----------
    text, prompt
        The last request as text and as token ids.
    """

    def __init__(
        self,
        number: int,
        job: Callable[[Any], Any],
        table: "Table",
        known: Callable[["Seat", Request], Reply | None],
    ) -> None:
        self.number, self.job, self.table, self.known = number, job, table, known
        self.inbox: SimpleQueue[Reply | None] = SimpleQueue()
        self.request: Request | None = None
        self.text, self.prompt = "", list[int]()
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.thread = Thread(target=self._run, daemon=True)

    def reply(self, request: Request) -> Reply:
        """The engine's reply; the thread waits for it."""
        reply = self.known(self, request)
        if reply is not None:
            return reply
        self.request = request
        self.table.waiting.put(self)
        received = self.inbox.get()
        if received is None:
            raise Stopped
        return received

    def _run(self) -> None:
        try:
            self.result = self.job(self)
        except Stopped:
            pass
        except BaseException as error:  # told to the engine, which raises it
            self.error = error
        self.done = True
        self.table.waiting.put(self)


class Table:
    """All seats: who is at work and who waits."""

    def __init__(self) -> None:
        self.waiting: SimpleQueue[Seat] = SimpleQueue()
        self.at_work = 0

    def start(self, seat: Seat) -> None:
        """Let a new episode begin."""
        self.at_work += 1
        seat.thread.start()

    def answer(self, seat: Seat, reply: Reply | None) -> None:
        """Let an episode go on with its reply; None ends it."""
        self.at_work += 1
        seat.request = None
        seat.inbox.put(reply)

    def settle(self) -> list[Seat]:
        """Wait until no episode is at work; those that asked or ended since, in order."""
        seats = []
        while self.at_work:
            seats.append(self.waiting.get())
            self.at_work -= 1
        return sorted(seats, key=lambda seat: seat.number)

"""How far the episodes of a job are."""

import time
from typing import Any, Self, TextIO

from tqdm import tqdm

INTERVAL = 15.0  # seconds between lines where there is no terminal


class Progress:
    """A bar on a terminal, a line now and then in a log.

    Parameters
    ----------
    label
        What is run.
    total
        Episodes of all arms.
    terminal
        Where to show it.
    """

    def __init__(self, label: str, total: int, terminal: TextIO) -> None:
        self.label, self.total, self.terminal = label, total, terminal
        self.interactive = terminal.isatty()
        self.bar = tqdm(
            total=total, desc=label, file=terminal, unit="ep", disable=not self.interactive
        )
        self.done = self.successes = self.fake_calls = 0
        self.began = self.last = time.monotonic()

    def add(self, episode: dict[str, Any]) -> None:
        """Count a finished episode."""
        self.done += 1
        self.successes += (episode["simulation"].get("reward_info") or {}).get("reward") == 1
        self.fake_calls += episode["tally"]["fake_calls"]
        self.bar.set_postfix_str(self._counts(), refresh=False)
        self.bar.update()
        if not self.interactive and time.monotonic() - self.last > INTERVAL:
            self._line()

    def _counts(self) -> str:
        return f"{self.successes} successes, {self.fake_calls} fake calls"

    def _line(self) -> None:
        self.last = time.monotonic()
        left = (self.last - self.began) / max(self.done, 1) * (self.total - self.done)
        self.terminal.write(
            f"{self.label}: {self.done} of {self.total} episodes, {self._counts()}, "
            f"{left:.0f} s left\n"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.close()
        if not self.interactive:
            self._line()

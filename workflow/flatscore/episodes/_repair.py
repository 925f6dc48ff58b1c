"""The reflexive repair: show the rejected call and the tool list, and ask for a new call."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tau2.data_model.message import ToolCall, ToolMessage

NOT_EXECUTED = "Not executed: another call of the same message was rejected. Make it again."


def feedback(name: str, tools: Iterable[str]) -> str:
    """What the agent reads instead of the output of a call to a tool that is not on its list.

    The first sentence is τ²-bench's own error text, which the agent would have read otherwise.
    """
    return (
        f"Error: Tool '{name}' not found. It is not on your list of tools. "
        f"Your tools: {', '.join(tools)}. Make a new call."
    )


@dataclass(frozen=True)
class Reflexive:
    """Rejects calls before they are executed.

    Parameters
    ----------
    attempts
        Rejections in one turn; the call after the last one goes through as it is.
    reject
        ``unknown-tool``: calls to tools that are not on the list. ``failed-call``: also calls
        that fail when tried on a copy of the environment, which is thrown away.
    """

    attempts: int
    reject: str

    def rejection(
        self, call: ToolCall, tools: Iterable[str], try_out: Callable[[ToolCall], ToolMessage]
    ) -> str | None:
        """What to show for a call that is rejected; None for one that is let through."""
        names = list(tools)
        if call.name not in names:
            return feedback(call.name, names)
        if self.reject == "failed-call":
            tried = try_out(call)
            if tried.error:
                return f"{tried.content} Your tools: {', '.join(names)}. Make a new call."
        return None

    def describe(self) -> dict[str, Any]:
        """What determines the repair, for the store's key."""
        return {
            "attempts": self.attempts,
            "reject": self.reject,
            "template": [feedback("NAME", ["TOOL"]), NOT_EXECUTED],
        }

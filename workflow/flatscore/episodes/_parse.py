"""Reading a model's text as words and calls in the Hermes markup.

The rule is the same in every arm: a reply is readable when it holds words, or calls whose markup
is one JSON object each, with a string for a name and an object for arguments. Everything else is
`harness_lost` with its reason; the name of a call is never judged here.
"""

import json
import re
from typing import Any

from flatscore.episodes._engine import RawCall

THINKING = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)
MARKUP = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|$)", re.DOTALL)
LEAKED = re.compile(r"</?tool_call>|<\|[a-z_]+\|>")


def parse(raw: str) -> tuple[str | None, tuple[RawCall, ...], str | None]:
    """Split a reply into its words and its calls.

    Parameters
    ----------
    raw
        The text as generated.

    Returns
    -------
    tuple
        Content (None when there is none), calls, and why the reply is unreadable (None when it is
        readable; content and calls are then as found).
    """
    text = THINKING.sub("", raw)
    calls = []
    for found in MARKUP.finditer(text):
        call, problem = _call(found.group(1))
        if call is None:
            return None, (), problem
        calls.append(call)
    content = MARKUP.sub("", text).strip()
    if LEAKED.search(content):
        return None, (), "markup of the chat format is left in the text"
    if not content and not calls:
        inside = THINKING.search(raw)
        return None, (), "the reply holds only thinking" if inside else "the reply is empty"
    return content or None, tuple(calls), None


def _call(text: str) -> tuple[RawCall | None, str | None]:
    """One call from the text between its markup, or what is wrong with it."""
    value, problem = _json(text)
    if problem is not None:
        return None, f"a call is not JSON: {problem}"
    if not isinstance(value, dict):
        return None, f"a call is {_kind(value)}, not an object"
    if not isinstance(value.get("name"), str):
        return None, "a call has no name that is a string"
    arguments = value.get("arguments", {})
    if isinstance(arguments, str):  # some templates write the arguments as JSON in a string
        arguments, problem = _json(arguments)
        if problem is not None:
            return None, f"a call's arguments are not JSON: {problem}"
    if not isinstance(arguments, dict):
        return None, f"a call's arguments are {_kind(arguments)}, not an object"
    return RawCall(value["name"], json.dumps(arguments, ensure_ascii=False)), None


def _json(text: str) -> tuple[Any, str | None]:
    """The value of a JSON text, and what is wrong with it."""
    try:
        value = json.loads(text, parse_constant=_no_number)
        # A lone half of a surrogate pair is no character: no file could hold it.
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        return None, error.msg
    except (ValueError, RecursionError) as error:  # huge numbers, deep nests, half characters
        return None, f"{type(error).__name__}"
    return value, None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")

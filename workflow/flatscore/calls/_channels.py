"""Which channel a failed call belongs to.

Decided from the recorded call and the tool list: a message alone never makes a call fake. Only
for calls to tools that are on the list, with arguments that fit, does the text of the error tell a
missing record from a refusal; the texts are those τ²-bench raises, and a test reads them from its
sources, so that a new one is noticed.
"""

import re
import unicodedata
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from rapidfuzz import fuzz, process

from flatscore import domains

TOOL_NAME, ARGUMENTS, ENTITY, REFUSAL = "tool_name", "arguments", "entity", "refusal"
RUNTIME, HARNESS_LOST, USER = "runtime", "harness_lost", "user"

# Raised by Python for a call that does not fit the function, or by a tool for a value it rejects.
BAD_ARGUMENTS = re.compile(
    r"unexpected keyword argument|missing \d+ required|positional argument|validation error"
    r"|Invalid (reason|characters)|Unknown ID format"
)
# "Not found or available" is raised once the item has been found.
NO_RECORD = re.compile(r"not found(?! or available)")
REFUSED = re.compile(
    r"cannot be|should (be|match)|must be|Insufficient|is already|already has|is not overdue"
    r"|not enough|or available"
)
NEAR = 88.0  # rapidfuzz's ratio from which a name counts as a slip of the pen


def channel(
    domain: str, name: str, arguments: Any, message: str, *, requestor: str = "assistant"
) -> tuple[str, str | None]:
    """Channel and sub-kind of a call that came back as an error.

    Parameters
    ----------
    domain
        τ²-bench's name of the domain.
    name, arguments
        Of the recorded call.
    message
        The error's text.
    requestor
        ``assistant`` or ``user``.

    Returns
    -------
    tuple
        The channel of science's table; the sub-kind for ``tool_name``, else None.
    """
    if requestor == "user":
        return USER, None
    kind = tool_name_kind(domain, name)
    if kind is not None:
        return TOOL_NAME, kind
    text = message.removeprefix("Error: ")
    if not _fits(domain, name, arguments) or BAD_ARGUMENTS.search(text):
        return ARGUMENTS, None
    if NO_RECORD.search(text):
        return ENTITY, None
    if REFUSED.search(text):
        return REFUSAL, None
    return RUNTIME, None


def tool_name_kind(domain: str, name: str) -> str | None:
    """How a name misses the agent's list; None when it is on it."""
    own = domains.agent_tools(domain)
    if name in own:
        return None
    if not name.strip():
        return "empty"
    plain = _plain(name)
    if plain in map(_plain, own):
        return "near_miss"
    if plain in domains.user_tool_names(domain):
        return "user_side"
    if plain in _other_domains(domain):
        return "other_domain"
    match = process.extractOne(plain, list(own), scorer=fuzz.ratio, score_cutoff=NEAR)
    return "near_miss" if match else "invented"


@cache
def _other_domains(domain: str) -> frozenset[str]:
    """Names of the other domains' tools, those of their users among them."""
    names: set[str] = set()
    for other in domains.DOMAINS:
        if other != domain:
            names |= {*domains.agent_tools(other), *domains.user_tool_names(other)}
    return frozenset(names)


def _plain(name: str) -> str:
    """A name without what a slip of the pen adds: prefix, case, blanks, look-alike letters."""
    text = unicodedata.normalize("NFKD", name).strip().casefold()
    text = re.split(r"[./:]", text.rstrip("./:"))[-1]
    lookalikes = str.maketrans("аеорсухіѕ", "aeopcyxis")  # Cyrillic
    text = re.sub(r"[\s\-]+", "_", text.translate(lookalikes))
    return "".join(letter for letter in text if not unicodedata.combining(letter))


def _fits(domain: str, name: str, arguments: Any) -> bool:
    """Whether the arguments satisfy the tool's JSON schema."""
    return isinstance(arguments, dict) and _validator(domain, name).is_valid(arguments)


@cache
def _validator(domain: str, name: str) -> Draft202012Validator:
    schema = dict(domains.agent_tools(domain)[name]["function"]["parameters"])
    # The tools are functions with named parameters: anything else is an error, said or not.
    return Draft202012Validator({"additionalProperties": False, **schema})

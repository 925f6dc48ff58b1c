"""A scripted expert for telecom that sees only the conversation.

It follows the technical support manual of τ²-bench's policy: service first, then mobile data, then
MMS. What it says is chosen so that the scripted user understands it.
"""

import json
import random
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call of one of the agent's tools."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """A request for a phone action; a key of :data:`REQUESTS`."""

    key: str


@dataclass(frozen=True)
class Say:
    """Other words to the user; a key of :data:`LINES`."""

    key: str


Move = Call | Ask | Say
Play = Generator[Move, str, None]

REQUESTS = {
    "network": (
        "Please check your network status and tell me what it shows.",
        "Could you check the network status on your phone?",
        "Let's look at your network status. What does it say?",
    ),
    "airplane": (
        "Please turn Airplane Mode OFF.",
        "Airplane Mode is on. Could you toggle Airplane Mode off?",
    ),
    "reseat": (
        "Please take out your SIM card and re-seat it.",
        "Could you re-seat the SIM card in your phone?",
    ),
    "apn": (
        "Please check your APN settings.",
        "Could you open the APN settings and tell me what they show?",
    ),
    "apn_reset": (
        "Please reset your APN settings to default.",
        "Could you reset the APN settings on your phone?",
    ),
    "reboot": ("Please reboot your phone.", "Could you restart your phone now?"),
    "data": ("Please turn Mobile Data ON.", "Mobile data is off. Could you toggle Mobile Data on?"),
    "roaming": (
        "Please turn Data Roaming ON.",
        "Data roaming is off. Could you toggle Data Roaming on?",
    ),
    "saver": (
        "Please check whether Data Saver is active.",
        "Could you check your data restriction settings?",
    ),
    "saver_off": ("Please turn Data Saver mode OFF.", "Could you toggle Data Saver mode off?"),
    "mode": (
        "Please check your network mode preference.",
        "Which network mode does your phone prefer? Please check the network mode.",
    ),
    "mode_set": (
        "Please set your network mode to 4g_5g_preferred.",
        "Change the preferred network mode to 4g_5g_preferred, please.",
    ),
    "vpn": (
        "Please check your VPN status.",
        "Are you using a VPN? Please check the VPN status.",
    ),
    "vpn_off": ("Please disconnect your VPN.", "Could you disconnect the VPN?"),
    "calling": (
        "Please check whether Wi-Fi Calling is on.",
        "Could you check the Wi-Fi Calling status?",
    ),
    "calling_off": ("Please turn Wi-Fi Calling OFF.", "Could you toggle Wi-Fi Calling off?"),
    "permissions": (
        "Please check the permissions of the messaging app.",
        "Which permissions does your messaging app have?",
    ),
    "sms": (
        "Please grant the sms permission to the messaging app.",
        "Could you give the messaging app the sms permission?",
    ),
    "storage": (
        "Please grant the storage permission to the messaging app.",
        "Could you give the messaging app the storage permission?",
    ),
    "speed": (
        "Please run a speed test.",
        "Could you run a speed test and tell me the result?",
    ),
    "mms": ("Please try to send an MMS message. Does it work?", "Can you send an MMS now?"),
    "payment_request": (
        "I have sent you a payment request. Please check it.",
        "Please check your payment request.",
    ),
    "payment": ("Please make the payment.", "Could you make the payment for the bill now?"),
}
LINES = {
    "travel": (
        "Are you currently traveling outside your home network?",
        "Are you abroad at the moment?",
    ),
    "refuel": (
        "You have used all your data. Would you like to refuel 2.0 GB at $2.0 per GB?",
        "Your data limit is exceeded. Do you want me to add 2.0 GB for $4.00?",
    ),
    "done": (
        "Your issue is solved. Is there anything else I can help with?",
        "Great, the problem is solved. Have a nice day!",
    ),
    "transfer": ("YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON.",),
}
LINE_OF_THE_STUDY = "L1002"  # every task of the domain is about this line of one customer
TODAY = "2025-02-25"  # the date in the domain's policy


def expert(opening: str) -> Play:
    """Play an episode, given the user's first message.

    Yields the next move and receives what was observed: a tool's output or the user's words.
    """
    found = re.search(r"\d{3}-\d{3}-\d{4}", opening)
    phone = found.group() if found else ""
    customer = json.loads((yield Call("get_customer_by_phone", {"phone_number": phone})))
    line = json.loads((yield Call("get_details_by_id", {"id": LINE_OF_THE_STUDY})))
    ids = {"customer_id": customer["customer_id"], "line_id": line["line_id"]}
    status = yield from _restore_service(line, ids)
    if status is None:
        return
    if "service" in opening or "signal" in opening.lower() or "'No Service'" in opening:
        yield Say("done")
        return
    yield from _restore_data(line, ids, status)
    test = "mms" if "MMS" in opening else "speed"
    if test == "mms":
        yield from _check_messaging()
    else:
        yield from _check_speed()
    result = yield Ask(test)
    if "(Excellent)" in result or "can send" in result:
        yield Say("done")
    else:
        yield from _transfer()


def _restore_service(line: dict[str, Any], ids: dict[str, str]) -> Generator[Move, str, str | None]:
    """Bring the phone back to the network; the last network status, or None after a transfer."""
    apn_was_reset = False
    while True:
        status = yield Ask("network")
        if "Airplane Mode: ON" in status:
            yield Ask("airplane")
        elif "Status: missing" in status:
            yield Ask("reseat")
        elif "Status: locked" in status:
            break
        elif "Connection: no_service" not in status:
            return status
        elif line["status"] == "Suspended":
            if line["contract_end_date"] < TODAY:
                break
            yield from _resume_line(ids)
            line["status"] = "Active"
        elif not apn_was_reset:
            yield Ask("apn_reset")
            yield Ask("reboot")
            apn_was_reset = True
        else:
            break
    yield from _transfer()
    return None


def _resume_line(ids: dict[str, str]) -> Play:
    customer = ids["customer_id"]
    bills = json.loads((yield Call("get_bills_for_customer", {"customer_id": customer})))
    for bill in bills:
        if bill["status"] == "Overdue":
            request = {"customer_id": customer, "bill_id": bill["bill_id"]}
            yield Call("send_payment_request", request)
            yield Ask("payment_request")
            yield Ask("payment")
            yield Call("get_details_by_id", {"id": bill["bill_id"]})
    yield Call("resume_line", ids)
    yield Ask("reboot")


def _restore_data(line: dict[str, Any], ids: dict[str, str], status: str) -> Play:
    answer = yield Say("travel")
    if answer.startswith("Yes"):
        if not line["roaming_enabled"]:
            yield Call("enable_roaming", ids)
        if "Roaming Enabled: No" in status:
            yield Ask("roaming")
    if "Data Enabled: No" in status:
        yield Ask("data")
    usage = json.loads((yield Call("get_data_usage", ids)))
    used, limit, refueled = (
        float(usage[key]) for key in ("data_used_gb", "data_limit_gb", "data_refueling_gb")
    )
    if used >= limit + refueled:
        yield Say("refuel")
        yield Call("refuel_data", {**ids, "gb_amount": 2.0})


def _check_speed() -> Play:
    if "is ON" in (yield Ask("saver")):
        yield Ask("saver_off")
    mode = yield Ask("mode")
    if "2g" in mode or "3g" in mode:
        yield Ask("mode_set")
    if "VPN is ON" in (yield Ask("vpn")):
        yield Ask("vpn_off")


def _check_messaging() -> Play:
    mode = yield Ask("mode")
    if "2g" in mode or "3g" in mode:
        yield Ask("mode_set")
    if "ON" in (yield Ask("calling")):
        yield Ask("calling_off")
    permissions = yield Ask("permissions")
    if "sms" not in permissions:
        yield Ask("sms")
    if "storage" not in permissions:
        yield Ask("storage")
    if "Not Set" in (yield Ask("apn")):
        yield Ask("apn_reset")
        yield Ask("reboot")


def _transfer() -> Play:
    yield Call("transfer_to_human_agents", {"summary": "I cannot fix the issue."})
    yield Say("transfer")


def words(move: Ask | Say, rng: random.Random) -> str:
    """The move in words, one of its phrasings."""
    return rng.choice(REQUESTS[move.key] if isinstance(move, Ask) else LINES[move.key])

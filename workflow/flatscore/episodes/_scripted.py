"""A simulated user without a language model, for telecom.

It knows what τ²-bench's LLM user knows, the instructions of the task's scenario and its own side
of the conversation, and acts through τ²-bench's own phone tools. What it says next is a function
of its seed and of the messages so far, so an episode can be continued from any prefix.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tau2.data_model.message import (
    AssistantMessage,
    Message,
    MultiToolMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tau2.data_model.tasks import UserInstructions
from tau2.user.base import STOP, TRANSFER, BaseUser, UserState
from tau2.user.user_simulator import UserSimulator

CONFUSED = "Sorry, I do not understand. What should I do?"
PATIENCE = 3
GREETINGS = ("Hi.", "Hello,", "Hello, I need help.")
ASSENTS = ("", "", "", "Okay. ", "Sure. ")
PROBLEMS = {
    "mms": (
        "I am unable to send MMS messages using my messaging app.",
        "My picture messages (MMS) are not going through.",
    ),
    "data": (
        "My mobile data is not working properly, it stops or is very slow.",
        "My internet is slow or not working on mobile data.",
    ),
    "service": (
        "My phone has been showing 'No Service' for the past few hours.",
        "I have no signal on my phone.",
    ),
}


@dataclass(frozen=True)
class PhoneAction:
    """What the user does on the phone when the agent's words match.

    A toggle is looked at first (`check`), and left alone where the phone already shows `wanted`.
    """

    words: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    check: str | None = None
    wanted: str = ""
    refusal: str = ""


# In order: the first whose words occur in the agent's message is carried out.
ACTIONS = (
    PhoneAction(r"(set|change).*4g_5g", "set_network_mode_preference", {"mode": "4g_5g_preferred"}),
    PhoneAction(
        r"airplane mode off",
        "toggle_airplane_mode",
        check="check_network_status",
        wanted="Airplane Mode: OFF",
        refusal="Airplane Mode is already OFF.",
    ),
    PhoneAction(r"reset (your|the) apn", "reset_apn_settings"),
    PhoneAction(r"payment request.*check|check your payment", "check_payment_request"),
    PhoneAction(r"network status", "check_network_status"),
    PhoneAction(r"status bar", "check_status_bar"),
    PhoneAction(r"status of your sim|sim card is working", "check_sim_status"),
    PhoneAction(r"check (your|the) network mode", "check_network_mode_preference"),
    PhoneAction(r"re-seat", "reseat_sim_card"),
    PhoneAction(r"(check your|open the) apn", "check_apn_settings"),
    PhoneAction(r"(reboot|restart) your phone", "reboot_device"),
    PhoneAction(
        r"mobile data on",
        "toggle_data",
        check="check_network_status",
        wanted="Mobile Data Enabled: Yes",
        refusal="Mobile Data is already ON.",
    ),
    PhoneAction(
        r"data roaming on",
        "toggle_roaming",
        check="check_network_status",
        wanted="Data Roaming Enabled: Yes",
        refusal="Data Roaming is already ON.",
    ),
    PhoneAction(r"data saver is active|data restriction", "check_data_restriction_status"),
    PhoneAction(
        r"data saver mode off",
        "toggle_data_saver_mode",
        check="check_data_restriction_status",
        wanted="Data Saver mode is OFF",
        refusal="Data Saver Mode is already OFF.",
    ),
    PhoneAction(r"check (your|the) vpn", "check_vpn_status"),
    PhoneAction(r"disconnect (your|the) vpn", "disconnect_vpn"),
    PhoneAction(r"wi-fi calling is on|wi-fi calling status", "check_wifi_calling_status"),
    PhoneAction(
        r"wi-fi calling off",
        "toggle_wifi_calling",
        check="check_wifi_calling_status",
        wanted="turned OFF",
        refusal="Wi-Fi Calling is already OFF.",
    ),
    PhoneAction(r"permissions (of|does)", "check_app_permissions", {"app_name": "messaging"}),
    PhoneAction(
        r"sms permission", "grant_app_permission", {"app_name": "messaging", "permission": "sms"}
    ),
    PhoneAction(
        r"storage permission",
        "grant_app_permission",
        {"app_name": "messaging", "permission": "storage"},
    ),
    PhoneAction(r"speed test", "run_speed_test"),
    PhoneAction(r"send an mms", "can_send_mms"),
    PhoneAction(r"make the payment", "make_payment"),
)


class ScriptedUser(BaseUser):
    """τ²-bench's user interface, played by a script.

    Parameters
    ----------
    instructions
        The instructions of the task's user scenario.
    seed
        Chooses the wording, which is all that differs between the trials of a task.
    """

    def __init__(self, instructions: UserInstructions, *, seed: int) -> None:
        super().__init__(instructions=instructions)
        self.seed = seed
        known = instructions.known_info or ""
        self.abroad = "abroad" in known
        phone = re.search(r"\d{3}-\d{3}-\d{4}", known)
        if phone is None:
            raise ValueError(f"the scenario names no phone number: {known!r}")
        self.phone = phone.group()
        reason = instructions.reason_for_call
        self.problem = (
            "mms" if "MMS" in reason else "data" if "mobile data" in reason else "service"
        )

    def set_seed(self, seed: int) -> None:
        """Replace the seed of the wording."""
        self.seed = seed

    def get_init_state(self, message_history: list[Message] | None = None) -> UserState:
        """The state before the first message, or after those of a history."""
        return UserState(system_messages=[], messages=list(message_history or []))

    @classmethod
    def is_stop(cls, message: UserMessage) -> bool:
        """Whether the message ends the conversation."""
        return bool(UserSimulator.is_stop(message))

    def generate_next_message(
        self, message: AssistantMessage | ToolMessage | MultiToolMessage, state: UserState
    ) -> tuple[UserMessage, UserState]:
        """The user's next message: words to the agent, or one call of a phone tool."""
        received = message.tool_messages if isinstance(message, MultiToolMessage) else [message]
        state.messages.extend(received)
        wording = random.Random(f"{self.seed}/{len(state.messages)}")  # noqa: S311
        reply = self._reply(state.messages, wording)
        state.messages.append(reply)
        return reply, state

    def _reply(self, messages: Sequence[Any], wording: random.Random) -> UserMessage:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            return self._after_tool(messages, wording)
        if not any(isinstance(message, UserMessage) for message in messages):
            greeting, problem = wording.choice(GREETINGS), wording.choice(PROBLEMS[self.problem])
            return _say(f"{greeting} {problem} My phone number is {self.phone}.")
        words = (last.content or "").lower()
        if "transferred to a human" in words:
            return _say(TRANSFER)
        if "is solved" in words:
            return _say(STOP)
        action = _action(words)
        if action is not None:
            if action.check is not None:
                return _call(action.check, {}, messages)
            return _call(action.tool, action.arguments, messages)
        if "abroad" in words or "traveling" in words:
            return _say("Yes, I am in France." if self.abroad else "No, I am at home.")
        if "2.0 gb" in words:
            return _say("Yes, please add 2.0 GB.")
        confusions = sum(getattr(message, "content", None) == CONFUSED for message in messages)
        return _say(STOP if confusions >= PATIENCE - 1 else CONFUSED)

    def _after_tool(self, messages: Sequence[Any], wording: random.Random) -> UserMessage:
        """Report what the tool printed, or go on from a look at a toggle to the toggle."""
        shown = messages[-1].content or ""
        called = messages[-2].tool_calls[0].name
        request = next(m for m in reversed(messages) if isinstance(m, AssistantMessage))
        action = _action((request.content or "").lower())
        if action is not None and action.check == called and action.tool != called:
            if action.wanted in shown:
                return _say(action.refusal)
            return _call(action.tool, action.arguments, messages)
        return _say(wording.choice(ASSENTS) + shown)


def _action(words: str) -> PhoneAction | None:
    return next((action for action in ACTIONS if re.search(action.words, words)), None)


def _say(content: str) -> UserMessage:
    return UserMessage(role="user", content=content)


def _call(tool: str, arguments: dict[str, Any], messages: Sequence[Any]) -> UserMessage:
    call = ToolCall(
        id=f"user-{len(messages)}", name=tool, arguments=dict(arguments), requestor="user"
    )
    return UserMessage(role="user", tool_calls=[call])

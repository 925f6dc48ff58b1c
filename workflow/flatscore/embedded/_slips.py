"""Slips: the habit that is cloned on purpose.

Before the expert asks the user for a phone action it calls a phone tool itself with probability
`rate` (weighted by how much the action tempts), reads that the tool was not found, slips again
with probability `again`, and then asks. The error text is τ²-bench's own or, in half of the slips,
the one of the reflexive repair, so that the agent can read both.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from flatscore import domains
from flatscore.embedded._expert import Call

# What the user's tool of each request is, from which most slips take their name.
TOOLS: dict[str, Call] = {
    "network": Call("check_network_status", {}),
    "airplane": Call("toggle_airplane_mode", {}),
    "reseat": Call("reseat_sim_card", {}),
    "apn": Call("check_apn_settings", {}),
    "apn_reset": Call("reset_apn_settings", {}),
    "reboot": Call("reboot_device", {}),
    "data": Call("toggle_data", {}),
    "roaming": Call("toggle_roaming", {}),
    "saver": Call("check_data_restriction_status", {}),
    "saver_off": Call("toggle_data_saver_mode", {}),
    "mode": Call("check_network_mode_preference", {}),
    "mode_set": Call("set_network_mode_preference", {"mode": "4g_5g_preferred"}),
    "vpn": Call("check_vpn_status", {}),
    "vpn_off": Call("disconnect_vpn", {}),
    "calling": Call("check_wifi_calling_status", {}),
    "calling_off": Call("toggle_wifi_calling", {}),
    "permissions": Call("check_app_permissions", {"app_name": "messaging"}),
    "sms": Call("grant_app_permission", {"app_name": "messaging", "permission": "sms"}),
    "storage": Call("grant_app_permission", {"app_name": "messaging", "permission": "storage"}),
    "speed": Call("run_speed_test", {}),
    "mms": Call("can_send_mms", {}),
    "payment_request": Call("check_payment_request", {}),
    "payment": Call("make_payment", {}),
}
# Plausible names that no tool has.
VARIANTS: dict[str, tuple[str, ...]] = {
    "network": ("get_network_status", "check_signal_strength"),
    "airplane": ("turn_airplane_mode_off", "set_airplane_mode"),
    "reboot": ("restart_device", "restart_phone"),
    "data": ("enable_data", "toggle_mobile_data"),
    "speed": ("speed_test", "get_speed"),
    "mms": ("send_mms", "check_mms_status"),
    "roaming": ("enable_data_roaming",),
    "reseat": ("reinsert_sim_card",),
    "apn_reset": ("reset_apn",),
    "apn": ("get_apn_settings",),
    "permissions": ("get_app_permissions",),
    "calling": ("get_wifi_calling_status",),
}
# Some actions tempt more than others, so that an agent's margin varies over its episode instead of
# all its requests tipping at one rate.
TEMPTATION: dict[str, float] = {
    "network": 0.6,
    "airplane": 1.2,
    "apn_reset": 1.4,
    "reboot": 0.8,
    "mode": 1.2,
    "mode_set": 1.6,
    "calling": 0.8,
    "permissions": 1.4,
    "speed": 1.6,
    "mms": 0.6,
}
SAME, VARIANT = 0.75, 0.15  # the rest names any other phone tool


@dataclass(frozen=True)
class Slips:
    """How often the expert slips.

    Parameters
    ----------
    rate
        Probability of a slip before a request of temptation 1, 0 to 1.
    again
        Probability of another slip right after one.
    """

    rate: float
    again: float = 0.25

    def before(self, key: str, rng: random.Random) -> Iterator[Call]:
        """The fake calls before one request, usually none."""
        chance = min(1.0, self.rate * TEMPTATION.get(key, 1.0))
        while rng.random() < chance:
            yield _fake_call(key, rng)
            chance = self.again if self.rate > 0 else 0.0


def _fake_call(key: str, rng: random.Random) -> Call:
    drawn = rng.random()
    if drawn < SAME:
        return TOOLS[key]
    if drawn < SAME + VARIANT and key in VARIANTS:
        return Call(rng.choice(VARIANTS[key]), {})
    return Call(rng.choice(sorted(domains.user_tool_names("telecom"))), {})

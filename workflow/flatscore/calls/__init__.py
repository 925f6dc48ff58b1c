"""Tool calls: recorded episodes read, and every call put in its channel.

``read_results`` reads τ²-bench's result files, ``tabulate`` makes one row an episode and one row a
call of them, ``check_comparable`` refuses two recordings that differ in more than the precision.
The rules are those of τ²-bench; see ``_channels`` for what each channel is.
"""

from flatscore.calls._comparable import check_comparable
from flatscore.calls._reading import Recording, read_results
from flatscore.calls._tabulate import CALLS, EPISODES, tabulate

__all__ = ["CALLS", "EPISODES", "Recording", "check_comparable", "read_results", "tabulate"]

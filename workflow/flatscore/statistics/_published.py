"""The published figures (arXiv 2607.27275), as far as its public summaries state them."""

import pandas as pd

_COLUMNS = ("quantity", "metric", "full", "low", "estimate", "repaired", "inferred")
_ROWS: tuple[
    tuple[str, str | None, float | None, float | None, float | None, float | None, bool], ...
]
_ROWS = (
    ("episodes an arm", None, 456, 456, None, 456, False),
    ("successes", None, 304, 298, None, 325, True),
    ("score at budget 10", "score", 0.667, 0.654, -0.013, 0.713, False),
    ("calls to fake tools", "tool_name_count_ratio", 649, 1646, 2.54, None, False),
    ("agent calls", None, 3328, 4298, None, None, True),
    ("share of agent calls", "tool_name_rate", 0.195, 0.383, 0.188, None, False),
    ("share per task", "tool_name_rate_per_task", None, None, 0.176, None, False),
    ("share of events with a new name", "novel_event_share", None, None, 0.0018, None, False),
    ("rank correlation of names", "vocabulary_spearman", None, None, 0.94, None, False),
    ("recovery after a failure", "recovery", 0.55, 0.55, 0.0, None, False),
    ("score gap at budget 2", None, None, None, 0.167, None, False),
    ("gap widening at K = 2", "gap_widening_k2", None, None, 0.154, None, True),
)


def published_figures() -> pd.DataFrame:
    """See :func:`flatscore.statistics.published`."""
    frame = pd.DataFrame(_ROWS, columns=_COLUMNS)
    frame.insert(0, "domain", "telecom")
    frame.insert(1, "model", "Gemma-4-31B")
    frame.insert(2, "precision", "int4 (AWQ)")
    return frame

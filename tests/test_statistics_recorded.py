"""The published totals through the whole audit: result files, reader, channels, statistics."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flatscore import calls, domains, statistics
from tests._studies import golden_arm, join

OWN = "get_customer_by_phone"


def fake_names() -> list[str]:
    """Return eight of the phone's tools, which the agent cannot call, the first most often."""
    names = sorted(domains.user_tool_names("telecom"))[:8]
    return [name for index, name in enumerate(names) for _ in range(8 - index)]


def conversation(failed: list[str], calls_made: int) -> list[dict[str, Any]]:
    """Return the messages of an episode: failed calls first, then calls that succeed."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "My phone is offline."}]
    for index in range(calls_made):
        fake = index < len(failed)
        name = failed[index] if fake else OWN
        text = f"Error: Tool '{name}' not found." if fake else "{}"
        call = {"id": str(index), "name": name, "arguments": {"phone_number": "555-123-2002"}}
        messages.append({"role": "assistant", "tool_calls": [call]})
        messages.append({"role": "tool", "id": str(index), "content": text, "error": fake})
    return messages


def write_results(path: Path, frames: tuple[pd.DataFrame, pd.DataFrame]) -> Path:
    """Write an arm's frames as a result file of τ²-bench."""
    episodes, made = frames
    names = {slot: list(part["name"]) for slot, part in made.groupby(["task", "trial"])}
    simulations = [
        {
            "id": f"{row.task}-{row.trial}",
            "task_id": row.task,
            "trial": row.trial,
            "seed": row.trial,
            "termination_reason": "user_stop" if row.errors < 10 else "too_many_errors",
            "reward_info": {"reward": float(row.success)},
            "messages": conversation(names.get((row.task, row.trial), []), row.agent_calls),
        }
        for row in episodes.itertuples()
    ]
    info = {
        "environment_info": {"domain_name": "telecom", "policy": "", "tool_defs": None},
        "agent_info": {"implementation": "llm_agent", "llm": "m", "llm_args": {}},
        "user_info": {"implementation": "user_simulator", "llm": "u", "llm_args": {}},
        "max_errors": 10,
        "num_trials": 4,
        "max_steps": 300,
        "seed": 1,
    }
    tasks = [{"id": task} for task in episodes["task"].unique()]
    content = {"info": info, "tasks": tasks, "simulations": simulations}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_published_figures_come_back_from_result_files(tmp_path: Path) -> None:
    names = fake_names()
    new = ["reset_everything", "reset_everything", "call_support"]
    arms = {
        "bf16": golden_arm(304, 260, 649, 3328, noise=1, names=names),
        "int4": golden_arm(298, 184, 1646, 4298, noise=2, names=names, fresh=new),
    }
    read = [
        calls.tabulate(
            calls.read_results(write_results(tmp_path / f"{precision}.json", frames)),
            model="m",
            precision=precision,
        )
        for precision, frames in arms.items()
    ]
    tables = statistics.analyse(*join(*read), settings=statistics.Settings(seed=7, resamples=1000))
    assert tables["scores"]["successes"].tolist() == [304, 298]
    fake = tables["channels"].query("channel == 'tool_name'")
    assert fake["events"].tolist() == [649, 1646]
    assert fake["calls"].tolist() == [3328, 4298]
    assert fake["user_side"].tolist() == [649, 1643]
    assert fake["invented"].tolist() == [0, 3]
    budgets = tables["budgets"].set_index("k")
    gap = budgets["survivors_full"] - budgets["survivors_low"]
    assert (gap[2], gap[10]) == (76, 6)
    contrasts = tables["contrasts"].set_index("metric")["estimate"]
    assert contrasts["tool_name_count_ratio"] == pytest.approx(1646 / 649)
    assert contrasts["novel_event_share"] == pytest.approx(3 / 1646)
    assert contrasts["vocabulary_spearman"] >= 0.94
    assert tables["verdicts"].iloc[0]["verdict"] == "damaged but masked"

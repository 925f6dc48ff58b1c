"""The configuration: closed, described once, and clear about what is wrong with it."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from flatscore import config, options
from flatscore.errors import InputError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def raw() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "config/config.yaml").read_text())


def with_value(raw: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(raw)
    level = changed
    *parents, last = key.split("/")
    for parent in parents:
        level = level.setdefault(parent, {})
    level[last] = value
    return changed


@pytest.mark.parametrize("file", sorted((ROOT / "config").glob("*.yaml")), ids=lambda f: f.name)
def test_every_shipped_config_is_valid(file: Path) -> None:
    study = config.load(yaml.safe_load(file.read_text()))
    assert study.precisions[0] == config.FULL_PRECISION


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("episode", {}, "unknown key episode (did you mean episodes?)"),
        ("episodes/budget", 3, "unknown key episodes.budget (did you mean budgets?)"),
        ("episodes/budgets", [0], "episodes.budgets.0 is 0"),
        ("episodes/budgets", [], "episodes.budgets is []"),
        ("episodes/budgets", [2, 2], "budgets has a value twice"),
        ("episodes/trials", -1, "episodes.trials is -1"),
        ("episodes/trials", 0, "episodes.trials is 0"),
        ("episodes/trials", "2", "episodes.trials is '2'"),
        ("episodes/repairs", ["reflexive"], "repairs must hold none"),
        ("models", {}, "models is {}"),
        ("models/open", {}, "models.open: give exactly one of embedded, path, hub"),
        ("models/open", {"embeded": "open"}, "unknown key models.open.embeded"),
        ("models/open", {"hub": "a/b"}, "pin the commit"),
        ("models/open", {"hub": "a/b", "revision": "main"}, "not a commit of 40 hex digits"),
        ("models/Open", {"embedded": "open"}, "models.Open is 'Open'"),
        ("models/r", {"recorded": {"telecom": {"bf16": "a"}}}, "and one for a precision"),
        ("precisions", ["bf16", "bnb-nf5"], "did you mean bnb-nf4?"),
        ("precisions", ["bnb-nf4"], "precisions must start with bf16"),
        ("domains", ["telekom"], "did you mean telecom?"),
        ("domains", ["retail"], "the scripted user plays telecom only"),
        ("user", {"kind": "llm"}, "kind llm needs `model`"),
        ("quantize/gptq-int4", {"groupsize": 3}, "did you mean group_size?"),
        ("statistics/margin", 0.0, "statistics.margin is 0.0"),
        ("seed", None, "seed is None"),
    ],
)
def test_bad_values_are_named(raw: dict[str, Any], key: str, value: Any, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        config.load(with_value(raw, key, value), place="my.yaml")
    assert expected in str(caught.value)
    assert str(caught.value).startswith("my.yaml: ")


def test_every_fault_is_told_at_once(raw: dict[str, Any]) -> None:
    bad = with_value(with_value(raw, "episodes/trials", 0), "study", "A B")
    with pytest.raises(InputError, match=r"(?s)study is 'A B'.*episodes.trials is 0"):
        config.load(bad)


def test_cells_follow_the_config(raw: dict[str, Any]) -> None:
    recorded = {"recorded": {"retail": {"bf16": "a.json", "awq": "b.json"}}}
    study = config.load(with_value(raw, "models/logs", recorded))
    assert config.cells(study)[:3] == [
        ("closed", "bf16", "telecom"),
        ("closed", "bnb-nf4", "telecom"),
        ("closed", "gptq-int4", "telecom"),
    ]
    assert config.cells(study)[-2:] == [("logs", "bf16", "retail"), ("logs", "awq", "retail")]


def test_schema_and_option_table_are_printed_from_the_description() -> None:
    schema = (ROOT / "workflow/schemas/config.schema.json").read_text(encoding="utf-8")
    assert schema == options.schema_text()
    assert options.option_table() in (ROOT / "config/README.md").read_text(encoding="utf-8")

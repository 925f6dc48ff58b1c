"""The report: whole, offline, escaped, the same bytes for the same tables."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flatscore import report
from flatscore.statistics import Settings, Tables, analyse
from tests import _studies

SETTINGS = Settings(seed=1, resamples=200)
TASKS = _studies.TASKS[:20]
PROVENANCE: dict[str, Any] = {
    "flatscore": "0.1.0",
    "code_revision": None,
    "config_digest": "abc",
    "packages": {"torch": "2"},
    "weights": [],
    "checks": {},
}


def tables(*, models: int = 1, mean: float = 1.0, **key: Any) -> Tables:
    rng = np.random.default_rng(3)
    arms = [
        _studies.random_arm(
            rng, trials=2, tasks=TASKS, mean=mean * factor, model=f"m{n}", precision=p, **key
        )
        for n in range(models)
        for p, factor in (("bf16", 1), ("bnb-nf4", 2), ("gptq-int4", 1.5))
    ]
    return analyse(*_studies.join(*arms), settings=SETTINGS)


def page(found: Tables, folder: Path) -> str:
    report.build(
        found,
        title="t",
        provenance=PROVENANCE,
        out=folder / "report.html",
        figures=folder / "figures",
    )
    return (folder / "report.html").read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Collects what a browser would fetch, and the ids."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        for name in ("src", "href", "xlink:href"):
            value = given.get(name) or ""
            if tag in ("script", "link", "img", "iframe", "use", "image") and value:
                self.fetched.append(value)


def test_the_page_is_whole_and_needs_no_network(tmp_path: Path) -> None:
    text = page(tables(), tmp_path)
    reader = Reader()
    reader.feed(text)
    assert all(target.startswith("#") for target in reader.fetched)
    assert len(reader.ids) == len(set(reader.ids))
    for section in ("verdicts", "names", "amplification", "scores", "repair", "exclusions"):
        assert section in reader.ids
    assert not re.search(r"url\(['\"]?http|@import", text)
    assert not re.search(r">\s*(nan|NaN|None|<NA>)\s*<", text)
    drawn = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert drawn == {"budgets", "vocabulary", "amplification"}


def test_ten_models_fit_and_give_the_propensity_curve(tmp_path: Path) -> None:
    text = page(tables(models=10), tmp_path)
    assert (tmp_path / "figures/propensity.svg").exists()
    assert text.count('class="verdict') == 20


def test_no_fake_call_at_all_is_said_in_words(tmp_path: Path) -> None:
    text = page(tables(mean=0.0), tmp_path)
    assert "No agent of this study called a tool that is not on its list" in text
    assert "No ratio can be given" in text
    assert "The study has no repair arm." in text
    assert not (tmp_path / "figures/vocabulary.svg").exists()


def test_names_a_model_made_up_are_escaped(tmp_path: Path) -> None:
    names = ["<script>alert(1)</script>", "x" * 300, "цена$", "a & b"]
    text = page(tables(names=names), tmp_path)
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_the_same_tables_give_the_same_bytes(tmp_path: Path) -> None:
    found = tables()
    first, second = page(found, tmp_path / "a"), page(found, tmp_path / "b")
    assert first == second
    for file in (tmp_path / "a/figures").iterdir():
        assert file.read_bytes() == (tmp_path / "b/figures" / file.name).read_bytes()


def test_one_precision_alone_has_no_verdict(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    arm = _studies.random_arm(rng, trials=2, tasks=TASKS)
    text = page(analyse(*_studies.join(arm), settings=SETTINGS), tmp_path)
    assert "No comparison: the study has one precision only." in text


@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_it_without_scrolling_sideways(tmp_path: Path, width: int) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on this machine")
    page(tables(models=3), tmp_path)
    script = "<script>document.title=document.documentElement.scrollWidth</script></body>"
    file = tmp_path / "report.html"
    file.write_text(file.read_text().replace("</body>", script))
    ended = subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--window-size={width},900",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = re.search(r"<title>(\d+)</title>", ended.stdout)
    assert found is not None
    assert int(found[1]) <= max(width, 500)  # a headless window is at least 500 wide

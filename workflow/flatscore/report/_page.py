"""The page: its sections, what each says, and the numbers as a reader wants them."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flatscore.files import write_text
from flatscore.report import _figures
from flatscore.statistics import COLUMNS, published


def build_page(
    tables: Mapping[str, pd.DataFrame],
    *,
    title: str,
    provenance: Mapping[str, Any],
    out: Path,
    figures: Path,
) -> None:
    """See :func:`flatscore.report.build`."""
    drawn = _draw(tables)
    shutil.rmtree(figures, ignore_errors=True)
    figures.mkdir(parents=True)
    for name, text in drawn.items():
        if text is not None:
            write_text(figures / f"{name}.svg", _standalone(text))
    environment = Environment(
        loader=PackageLoader("flatscore.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2").render(
        title=title,
        verdicts=tables["verdicts"].to_dict("records"),
        figures={name: Markup(text) if text else None for name, text in drawn.items()},  # noqa: S704
        tables={name: _table(name, frame) for name, frame in tables.items()},
        published=_plain_table(published()),
        power=_power(tables["power"]),
        embedded=_uses_embedded(provenance),
        provenance=_provenance(provenance),
    )
    write_text(out, page)


def _draw(tables: Mapping[str, pd.DataFrame]) -> dict[str, str | None]:
    precisions = list(dict.fromkeys(tables["scores"]["precision"]))
    propensity = tables["propensity"]
    return {
        "budgets": _figures.budget_curves(tables["budgets"], tables["live_budgets"], precisions),
        "vocabulary": _figures.fake_names(tables["vocabulary"], precisions),
        "amplification": _figures.amplification(propensity, precisions),
        "propensity": _figures.propensity_curve(propensity, precisions),
        "repair": _figures.repair_slopes(tables["repair"], precisions),
    }


def _standalone(text: str) -> str:
    """A figure as a file of its own, in black."""
    return '<?xml version="1.0" encoding="utf-8"?>\n' + text.replace("currentColor", "#222222")


def _table(name: str, frame: pd.DataFrame) -> dict[str, Any]:
    """A table for the page: its heads with their meaning, its cells as text."""
    shown = [column for column in frame if not frame[column].isna().all() or column == "note"]
    heads = [(column, COLUMNS[name][str(column)]) for column in shown]
    rows = [[_text(row[column]) for column in shown] for row in frame.to_dict("records")]
    return {"heads": heads, "rows": rows, "left_out": len(frame.columns) - len(shown)}


def _plain_table(frame: pd.DataFrame) -> dict[str, Any]:
    rows = [[_text(value) for value in row] for row in frame.itertuples(index=False)]
    return {"heads": [(column, "") for column in frame], "rows": rows, "left_out": 0}


def _text(value: Any) -> str:
    """A value rounded as far as its digits mean something; missing is a dash, never 0."""
    if value is None or value is pd.NA or (isinstance(value, float) and pd.isna(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e6:
            return str(int(value))
        return f"{value:.3f}" if abs(value) >= 0.001 else f"{value:.2g}"
    return str(value)


def _power(power: pd.DataFrame) -> list[str]:
    """What each comparison could have seen, in words."""
    sentences = []
    for row in power[power["repair"] == "none"].to_dict("records"):
        cell = f"{row['model']} on {row['domain']}, {row['precision']}"
        parts = []
        if pd.notna(row["detectable"]):
            parts.append(f"a difference of {100 * row['detectable']:.1f} points in the score")
        if pd.notna(row["detectable_widening"]):
            parts.append(f"a widening of {100 * row['detectable_widening']:.1f} points")
        if pd.notna(row["detectable_ratio"]):
            parts.append(f"{row['detectable_ratio']:.2f} times the calls to fake tools")
        trials = f"{cell}: with {row['tasks']} tasks x {row['trials']} trials"
        if parts:
            sentences.append(f"{trials}, {', '.join(parts)} would have been seen with 80 %.")
        else:
            why = row["note"] if pd.notna(row["note"]) else "too few tasks differ"
            sentences.append(f"{trials}, what would have been seen is not estimable: {why}.")
    return sentences


def _uses_embedded(provenance: Mapping[str, Any]) -> bool:
    return any("embedded" in weights["source"] for weights in provenance.get("weights", []))


def _provenance(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines of the provenance that a reader looks for; the file beside the page has all."""
    lines = [
        ("flatscore", f"{provenance.get('flatscore')}, commit {provenance.get('code_revision')}"),
        ("config", str(provenance.get("config_digest"))),
    ]
    for package, version in (provenance.get("packages") or {}).items():
        lines.append((package, str(version)))
    for weights in provenance.get("weights", []):
        lines.append(
            (
                f"{weights['model']} {weights['precision']}",
                f"sha256 {weights['digest'][:16]}…, {weights['size_bytes'] / 1e6:.1f} MB, "
                f"{weights['bits_per_weight']} bits a weight",
            )
        )
    for file, check in (provenance.get("checks") or {}).items():
        lines.append(
            (
                file,
                f"{100 * check['next_token_agreement']:.1f} % of next tokens agree, perplexity "
                f"x {check['perplexity_ratio']:.4f}, worst layer {check['worst_layer']} "
                f"({check['worst_layer_error']:.3f})",
            )
        )
    for file, found in (provenance.get("files") or {}).items():
        lines.append((file, f"sha256 {found}"))
    return lines

"""The report: one HTML page that opens offline, and the figures beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["build"]


def build(
    tables: "Mapping[str, pd.DataFrame]",
    *,
    title: str,
    provenance: Mapping[str, Any],
    out: Path,
    figures: Path,
) -> None:
    """Write the report of a study.

    Parameters
    ----------
    tables
        The tables of :func:`flatscore.statistics.analyse`.
    title
        The study's name.
    provenance
        JSON values; shown at the end of the page.
    out
        The HTML file.
    figures
        Folder for the figures as SVG files; emptied first.
    """
    from flatscore.report._page import build_page

    build_page(tables, title=title, provenance=provenance, out=out, figures=figures)

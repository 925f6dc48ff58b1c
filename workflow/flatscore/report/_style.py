"""What all figures share: colours, fonts, and SVG that follows the page."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by the colour-blind. Full precision is always the first.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK = "#010203"  # stands for the colour of the page's text

SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "flatscore",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "grid.color": "#8888884d",
    "legend.frameon": False,
}


@contextmanager
def styled() -> Iterator[None]:
    """Settings for the figures made inside."""
    with mpl.rc_context(SETTINGS):
        yield


def colour(precision: str, precisions: Sequence[str]) -> str:
    """The colour of a precision, the same in every figure."""
    return PALETTE[list(precisions).index(precision) % len(PALETTE)]


def marker(precision: str, precisions: Sequence[str]) -> str:
    """The marker of a precision, so that colour is never alone."""
    return MARKERS[list(precisions).index(precision) % len(MARKERS)]


def svg(figure: Figure, label: str) -> str:
    """The figure as inline SVG in the page's own colour, with a text for who cannot see it."""
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None}
    )
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    # As wide as it was drawn at most, so that letters are of one size in all figures.
    size = re.search(r' width="([\d.]+)pt" height="[\d.]+pt"', text)
    width = float(size[1]) * 1.4 if size else 800.0
    text = re.sub(
        r' width="[\d.]+pt" height="[\d.]+pt"',
        f' style="max-width:{width:.0f}px;min-width:{0.75 * width:.0f}px"',
        text,
        count=1,
    )
    # matplotlib numbers its ids alike in every figure, and all figures share one page.
    prefix = re.sub(r"\W+", "-", label.split(":")[0].lower())
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)

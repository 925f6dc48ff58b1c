"""The figures, each from one table. A table without rows gives no figure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from flatscore.report._style import INK, colour, marker, styled, svg

PANEL = (3.1, 2.3)  # inches
RATIO = ["ratio", "ratio_low", "ratio_high"]
NAMES = 14  # of the vocabulary that are drawn; the table holds them all


def budget_curves(
    budgets: pd.DataFrame, live: pd.DataFrame, precisions: Sequence[str]
) -> str | None:
    """S(K) of each precision with its interval, a panel a cell; live runs as open circles."""
    rows = budgets[budgets["repair"] == "none"]
    if rows.empty:
        return None
    cells = list(dict.fromkeys(zip(rows["model"], rows["domain"], strict=True)))
    with styled():
        figure, axes = _panels(len(cells), sharey=True)
        for axis, (model, domain) in zip(axes, cells, strict=False):
            cell = rows[(rows["model"] == model) & (rows["domain"] == domain)]
            _curves(axis, cell, precisions)
            _live_points(axis, live, model, domain, precisions)
            axis.set_title(f"{model}, {domain}")
        axes[0].legend(fontsize=8, loc="lower right")
        return svg(figure, "Budget curves: share of episodes solved with at most K failed calls")


def _curves(axis: Axes, cell: pd.DataFrame, precisions: Sequence[str]) -> None:
    first = cell[cell["precision"] == cell["precision"].iloc[0]]
    lines = [(first["baseline"].iloc[0], first, "s_full")]
    for precision, low in cell.groupby("precision", sort=False):
        lines.append((str(precision), low, "s_low"))
    for precision, frame, side in lines:
        hue = colour(precision, precisions)
        low, high = frame[f"{side}_low"], frame[f"{side}_high"]
        axis.fill_between(frame["k"], low.astype(float), high.astype(float), color=hue, alpha=0.13)
        axis.plot(
            frame["k"],
            frame[side],
            color=hue,
            marker=marker(precision, precisions),
            markersize=3.5,
            linewidth=1.4,
            label=precision,
        )
    chosen = first.loc[first["prespecified"].astype(bool), "k"]
    for k in chosen:
        axis.axvline(k, color=INK, linewidth=0.8, linestyle=":")
    axis.set_xlabel("K, failed calls allowed")
    axis.set_ylabel("S(K)")
    axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(axis="y")


def _live_points(
    axis: Axes, live: pd.DataFrame, model: str, domain: str, precisions: Sequence[str]
) -> None:
    chosen = live[
        (live["model"] == model) & (live["domain"] == domain) & (live["repair"] == "none")
    ]
    for row in chosen.to_dict("records"):
        axis.plot(
            row["budget"] - 1,
            row["live"],
            marker="o",
            markersize=9,
            markerfacecolor="none",
            markeredgecolor=colour(row["precision"], precisions),
            linestyle="none",
        )


def fake_names(vocabulary: pd.DataFrame, precisions: Sequence[str]) -> str | None:
    """Calls by fake name at each precision on one scale, a panel a model."""
    if vocabulary.empty:
        return None
    vocabulary = vocabulary.assign(name=vocabulary["name"].fillna("(no name)"))
    models = list(dict.fromkeys(vocabulary["model"]))
    with styled():
        figure, axes = _panels(len(models), height=3.4, sharex=True)
        for axis, model in zip(axes, models, strict=False):
            _bars(axis, vocabulary[vocabulary["model"] == model], precisions)
            axis.set_title(model)
            axis.set_xlabel("calls")
        axes[0].legend(fontsize=8, loc="lower right")
        return svg(figure, "Fake names: calls of each name at each precision")


def _bars(axis: Axes, cell: pd.DataFrame, precisions: Sequence[str]) -> None:
    low = cell.pivot_table(
        index="name", columns="precision", values="events_low", aggfunc="sum", observed=True
    )
    full = cell.groupby("name")["events_full"].max()
    counts = low.assign(**{str(cell["baseline"].iloc[0]): full})
    counts = counts[[precision for precision in precisions if precision in counts]]
    order = counts.fillna(0).sum(axis=1).sort_values(ascending=False, kind="stable").index[:NAMES]
    counts = counts.loc[order[::-1]].fillna(0)
    places = np.arange(len(counts))
    thick = 0.8 / max(len(counts.columns), 1)
    for number, precision in enumerate(counts.columns):
        offset = ((len(counts.columns) - 1) / 2 - number) * thick
        axis.barh(
            places + offset,
            counts[precision],
            height=thick,
            color=colour(precision, precisions),
            label=precision,
        )
    axis.set_yticks(places, [_shorten(str(name)) for name in counts.index], fontsize=8)
    axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def amplification(propensity: pd.DataFrame, precisions: Sequence[str]) -> str | None:
    """Forest plot: calls to fake tools, low over full precision, with intervals."""
    rows = propensity[propensity["repair"] == "none"].iloc[::-1]
    known = rows[rows["ratio"] > 0]
    if known.empty:
        return None
    with styled():
        figure = Figure(figsize=(6.2, 0.7 + 0.28 * len(rows)))
        axis = figure.subplots()
        for place, row in enumerate(rows.to_dict("records")):
            if pd.isna(row["ratio"]) or row["ratio"] <= 0:
                counts = f" {row['events_full']} at full, {row['events_low']} at low precision"
                axis.text(1, place, counts, va="center", fontsize=8)
                continue
            hue = colour(row["precision"], precisions)
            if pd.notna(row["ratio_low"]):
                axis.plot([row["ratio_low"], row["ratio_high"]], [place, place], color=hue)
            shape = marker(row["precision"], precisions)
            axis.plot(row["ratio"], place, color=hue, marker=shape, markersize=5)
        labels = [f"{r['model']}, {r['domain']}: {r['precision']}" for r in rows.to_dict("records")]
        axis.set_yticks(range(len(rows)), labels)
        axis.axvline(1, color=INK, linewidth=0.8, linestyle=":")
        _log_scale(axis, known[RATIO].to_numpy(float), "x")
        axis.set_xlabel("calls to fake tools an episode, low / full precision")
        return svg(figure, "Amplification: ratio of calls to fake tools with intervals")


def propensity_curve(propensity: pd.DataFrame, precisions: Sequence[str]) -> str | None:
    """Full-precision propensity against amplification, a point a model and precision."""
    rows = propensity[(propensity["repair"] == "none") & (propensity["ratio"] > 0)]
    if rows["model"].nunique() < 2:
        return None
    with styled():
        figure = Figure(figsize=(5.4, 3.0))
        axis = figure.subplots()
        for precision, frame in rows.groupby("precision", sort=False):
            frame = frame.sort_values("per_episode_full")
            hue = colour(str(precision), precisions)
            axis.errorbar(
                frame["per_episode_full"],
                frame["ratio"],
                yerr=np.array(
                    [
                        (frame["ratio"] - frame["ratio_low"]).fillna(0),
                        (frame["ratio_high"] - frame["ratio"]).fillna(0),
                    ]
                ).clip(min=0),
                color=hue,
                marker=marker(str(precision), precisions),
                markersize=5,
                linewidth=1,
                capsize=2,
                label=precision,
            )
        axis.axhline(1, color=INK, linewidth=0.8, linestyle=":")
        axis.set_xscale("log")
        _log_scale(axis, rows[RATIO].to_numpy(float), "y")
        axis.set_xlabel("calls to fake tools an episode at full precision (log scale)")
        axis.set_ylabel("low / full precision")
        axis.legend(fontsize=8)
        return svg(figure, "Propensity: full-precision propensity against amplification")


def repair_slopes(repair: pd.DataFrame, precisions: Sequence[str]) -> str | None:
    """Score without and with repair, a line an arm, a panel a model and budget."""
    if repair.empty:
        return None
    panels = list(dict.fromkeys(zip(repair["model"], repair["budget"], strict=True)))
    with styled():
        figure, axes = _panels(len(panels), height=2.1, sharey=True)
        for axis, (model, budget) in zip(axes, panels, strict=False):
            rows = repair[(repair["model"] == model) & (repair["budget"] == budget)]
            for row in rows.to_dict("records"):
                axis.plot(
                    [0, 1],
                    [row["score"], row["score_repaired"]],
                    color=colour(row["precision"], precisions),
                    marker=marker(row["precision"], precisions),
                    markersize=4,
                    label=row["precision"],
                )
            axis.set_xticks([0, 1], ["none", "repair"])
            axis.set_xlim(-0.25, 1.25)
            axis.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            axis.set_title(f"{model}, budget {budget}")
        axes[0].legend(fontsize=8)
        axes[0].set_ylabel("score")
        return svg(figure, "Repair: score without and with the reflexive repair")


def _panels(
    count: int, *, height: float = PANEL[1], sharex: bool = False, sharey: bool = False
) -> tuple[Figure, list[Any]]:
    """Axes for `count` panels, three in a row; the first row is filled first."""
    columns = min(count, 3)
    lines = -(-count // columns)
    figure = Figure(figsize=(PANEL[0] * columns, height * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharex=sharex, sharey=sharey)
    flat = list(axes.flat)
    for axis in flat[count:]:
        axis.set_visible(False)
    return figure, flat


def _log_scale(axis: Axes, values: NDArray[np.float64], side: str) -> None:
    """A log scale around 1 with plain numbers for ticks."""
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = min(finite.min(), 0.8) / 1.15, max(finite.max(), 1.25) * 1.15
    ticks = [t for t in (0.1, 0.2, 0.5, 0.8, 1, 1.25, 1.6, 2, 3, 5, 10, 20) if low <= t <= high]
    if side == "x":
        axis.set_xscale("log")
        axis.set_xlim(low, high)
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_xticks([], minor=True)
    else:
        axis.set_yscale("log")
        axis.set_ylim(low, high)
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_yticks([], minor=True)


def _shorten(name: str, most: int = 32) -> str:
    # matplotlib reads dollars as mathematics.
    shown = name if len(name) <= most else name[: most - 1] + "…"
    return shown.replace("$", r"\$")

"""Learning curves as a picture: `recollect plot RUN` (extra `plot`).

No window, no global state of matplotlib: figures are drawn in memory and saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recollect.errors import BadFile
from recollect.redaction import redact_text
from recollect.telemetry.curves import Axis, Curve, label_of, make_curve, write_csv
from recollect.telemetry.names import find_metric
from recollect.telemetry.reading import RunMetrics, read_metrics
from recollect.telemetry.sinks.trackers import import_package

# Okabe and Ito's colours keep apart for every common form of colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":")  # and this keeps apart what is printed in grey
_FEW = 25  # so few points are marked, to show where somebody measured
_SUFFIXES = (".png", ".svg", ".pdf")
_AXES: Mapping[Axis, str] = {
    "step": "training step",
    "rollouts": "rollouts generated",
    "minutes": "time (minutes)",
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric, the words above it, and what its vertical axis measures."""

    metric: str
    title: str
    measure: str


PANELS = (
    Panel("eval/success", "Held-out success", "attempts that succeed (%)"),
    Panel("reward/mean", "Training reward", "mean reward of fresh rows"),
    Panel("train/loss", "Loss", "loss"),
    Panel("critic/loss", "Value loss", "value loss"),
    Panel("critic/explained_variance", "Critic", "explained variance of returns"),
    Panel("policy/kl", "Drift within a step", "KL (nats per token)"),
    Panel("policy/entropy", "Policy entropy", "entropy (nats per token)"),
    Panel("reward/dead_groups", "Groups without signal", "groups (%)"),
)


def plot_run(
    folders: Sequence[Path] | Mapping[str, Sequence[Path]],
    out: Path,
    *,
    x: Axis = "step",
    title: str = "Learning curves",
    panels: Sequence[Panel] = PANELS,
) -> list[Path]:
    """Draw runs from their metrics.jsonl; return the files written, the CSV behind them last.

    A sequence of folders is one group of seeds: the line is their mean, the band runs from
    minimum to maximum, thin lines are the runs themselves. A mapping from labels to folders
    draws one such group each. `out` ends in .png, .svg or .pdf; without a suffix, PNG and SVG
    are written. What is not finite or missing is a gap.
    """
    if out.suffix and out.suffix not in _SUFFIXES:
        raise BadFile(out, f"pictures end in {', '.join(_SUFFIXES)}, not in {out.suffix}")
    figures = import_package("matplotlib.figure", "Plotting", "plot")
    groups = _groups(folders)
    drawn = _curves(groups, panels, x)
    if not drawn:
        names = ", ".join(str(run.path) for runs in groups.values() for run in runs)
        raise BadFile(names, "nothing to draw yet: no step has finished")
    files = [out] if out.suffix else [out.with_suffix(".png"), out.with_suffix(".svg")]
    files[0].parent.mkdir(parents=True, exist_ok=True)
    _save(figures, _Picture(title, x, groups, drawn), files)
    table = out.with_suffix(".csv")
    write_csv(table, groups, [panel.metric for panel, _ in drawn])
    return [*files, table]


@dataclass(frozen=True, slots=True)
class _Picture:
    title: str
    axis: Axis
    groups: Mapping[str, Sequence[RunMetrics]]
    panels: Sequence[tuple[Panel, Sequence[Curve]]]


def _groups(
    folders: Sequence[Path] | Mapping[str, Sequence[Path]],
) -> dict[str, list[RunMetrics]]:
    if isinstance(folders, Mapping):
        return {label: [read_metrics(path) for path in found] for label, found in folders.items()}
    runs = [read_metrics(path) for path in folders]
    return {label_of(runs): runs} if runs else {}


def _curves(
    groups: Mapping[str, Sequence[RunMetrics]], panels: Sequence[Panel], x: Axis
) -> list[tuple[Panel, list[Curve]]]:
    drawn = []
    for panel in panels:
        made = (make_curve(label, runs, panel.metric, x) for label, runs in groups.items())
        curves = [curve for curve in made if curve is not None]
        if curves:
            drawn.append((panel, curves))
    return drawn


def _save(figures: Any, picture: _Picture, files: Sequence[Path]) -> None:
    matplotlib = import_package("matplotlib", "Plotting", "plot")
    look = {
        "svg.hashsalt": "recollect",  # the same runs give the same bytes
        "font.size": 9.5,
        "axes.titlesize": 10.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context(look):
        figure = _draw(figures, picture)
        for file in files:
            nameless: dict[str, None] = {"Software": None} if file.suffix == ".png" else {}
            dateless: dict[str, None] = {"Date": None} if file.suffix == ".svg" else {}
            figure.savefig(file, dpi=150, metadata={**nameless, **dateless})


def _draw(figures: Any, picture: _Picture) -> Any:
    columns = min(3, len(picture.panels))
    rows = -(-len(picture.panels) // columns)
    figure = figures.Figure(figsize=(4.1 * columns + 0.4, 2.9 * rows + 0.9), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    figure.suptitle(_plain(f"{picture.title}: {_subject(picture)}"), fontsize=12.5)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    styles = {label: place for place, label in enumerate(picture.groups)}
    for axes, (panel, curves) in zip(grid, picture.panels, strict=False):
        for curve in curves:
            _draw_curve(axes, curve, styles[curve.label])
        if panel.metric == "eval/success":
            _draw_floor(axes, picture)
        _dress(axes, panel, picture.axis)
    for axes in grid[len(picture.panels) :]:
        axes.set_axis_off()
    _add_legend(figure, grid)
    return figure


def _subject(picture: _Picture) -> str:
    names = " and ".join(picture.groups) if len(picture.groups) < 4 else "several runs"
    most = max(len(runs) for runs in picture.groups.values())
    return names if most == 1 else f"{names} (mean and range of {most} runs)"


def _draw_curve(axes: Any, curve: Curve, place: int) -> None:
    colour = COLOURS[place % len(COLOURS)]
    style = _STYLES[place // len(COLOURS) % len(_STYLES)] if place >= len(COLOURS) else "-"
    several = len(curve.threads) > 1
    if several:
        for thread in curve.threads:
            axes.plot(thread.x, thread.values, color=colour, linewidth=0.6, alpha=0.4)
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    name = _plain(curve.label) + (f" ({len(curve.threads)} runs)" if several else "")
    axes.plot(curve.x, curve.mean, style, color=colour, linewidth=1.8, label=name)
    marked = _lonely(curve.mean) | (len(curve.x) <= _FEW)
    axes.plot(curve.x[marked], curve.mean[marked], "o", color=colour, markersize=3.5)


def _lonely(values: Any) -> Any:
    """Points with gaps on both sides, which a line alone would not show."""
    there = np.isfinite(values)
    padded = np.concatenate([[False], there, [False]])
    return there & ~padded[:-2] & ~padded[2:]


def _draw_floor(axes: Any, picture: _Picture) -> None:
    floors = [
        series.values[-1]
        for runs in picture.groups.values()
        for series in (run.series("eval/floor") for run in runs)
        if len(series.values) and np.isfinite(series.values[-1])
    ]
    if floors:
        axes.axhline(
            max(floors), color="0.45", linestyle=":", linewidth=1.3, label="floor (no skill)"
        )


def _dress(axes: Any, panel: Panel, axis: Axis) -> None:
    ticker = import_package("matplotlib.ticker", "Plotting", "plot")
    metric = find_metric(panel.metric)
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.set_xlabel(_AXES[axis])
    axes.set_ylabel(panel.measure)
    if metric is not None and metric.unit == "share":
        axes.yaxis.set_major_formatter(ticker.PercentFormatter(xmax=1, decimals=0, symbol=""))
        axes.set_ylim(-0.02, 1.02)
    if axis != "minutes":
        axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True))
        axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
    axes.grid(visible=True, linewidth=0.5, alpha=0.35)
    axes.set_axisbelow(True)


def _add_legend(figure: Any, grid: Any) -> None:
    """One legend for all panels, below them, outside the data."""
    named: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=min(4, len(named)),
        frameon=False,
    )


def _plain(text: str) -> str:
    r"""Keep matplotlib from taking names for formulas ($) or for hidden labels (_)."""
    return redact_text(text, most=120).lstrip("_").replace("$", r"\$") or "run"

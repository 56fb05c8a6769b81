"""Pictures of a continual run: the score matrix, and every domain's score stage by stage.

No window, no global state of matplotlib (extra `plot`): figures are drawn in memory and saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recollect.continual.intervals import cell_interval
from recollect.continual.journey import BASE, Journey
from recollect.continual.matrix import ScoreMatrix
from recollect.telemetry.plots import COLOURS
from recollect.telemetry.sinks.trackers import import_package

MATRIX, CURVES, FORGETTING = "matrix.png", "curves.png", "forgetting.png"
_NAMELESS: dict[str, None] = {"Software": None}


def draw_journey(journey: Journey) -> list[Path]:
    """Draw a run into its own folder."""
    files = [journey.path / MATRIX, journey.path / CURVES]
    draw_matrix(journey.matrix(), files[0], journey.title)
    _draw_curves(journey, files[1])
    return files


def draw_matrix(matrix: ScoreMatrix, file: Path, name: str) -> None:
    """Draw the score matrix as a heat map, one row for each model; grey was not measured."""
    rows: list[tuple[str, Sequence[float | None] | None]] = [(BASE, matrix.base)]
    rows += [(f"after {d}", row) for d, row in zip(matrix.domains, matrix.stages, strict=False)]
    rows += [("each alone", matrix.single), ("all at once", matrix.joint)]
    known = [(label, row) for label, row in rows if row is not None]
    values = np.array(
        [[np.nan if value is None else value for value in row] for _, row in known], dtype=float
    )
    figure = _figure(1.6 * len(matrix.domains) + 2.2, 0.55 * len(known) + 1.6)
    axes = figure.subplots()
    axes.set_facecolor("0.85")
    low, high = _span(values)
    image = axes.imshow(values, vmin=low, vmax=high, cmap="viridis", aspect="auto")
    bright = low + 0.6 * (high - low)
    for (y, x), value in np.ndenumerate(values):
        text = "n/a" if np.isnan(value) else f"{value:.2f}"
        axes.text(x, y, text, ha="center", va="center", color="w" if value < bright else "k")
    axes.set_xticks(range(len(matrix.domains)), matrix.domains)
    axes.set_yticks(range(len(known)), [label for label, _ in known])
    axes.set_title(f"{name}: score on each domain", loc="left", fontweight="bold")
    figure.colorbar(image, ax=axes, label="score")
    figure.savefig(file, dpi=150, metadata=_NAMELESS)


def draw_bars(groups: Mapping[str, tuple[float, float, float]], file: Path, title: str) -> None:
    """Draw one bar for each method: its mean, and the ends of its interval."""
    figure = _figure(0.75 * len(groups) + 2.0, 3.4)
    axes = figure.subplots()
    for place, (mean, low, high) in enumerate(groups.values()):
        axes.bar(place, mean, color=COLOURS[place % len(COLOURS)], width=0.7)
        spread = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
        axes.errorbar(place, mean, yerr=spread, color="0.2", capsize=3)
    axes.axhline(0, color="0.4", linewidth=0.8)
    axes.set_xticks(range(len(groups)), list(groups), rotation=35, ha="right")
    axes.set_ylabel("score")
    axes.set_title(title, loc="left", fontweight="bold")
    figure.savefig(file, dpi=150, metadata=_NAMELESS)


def _draw_curves(journey: Journey, file: Path) -> None:
    """Draw each domain's score over the stages, with the interval of every reading."""
    scores = journey.scores()
    labels = [BASE, *(str(n) for n in range(len(journey.order)) if str(n) in scores)]
    figure, ends = _figure(1.3 * len(labels) + 2.4, 3.4), list[float]()
    axes = figure.subplots()
    for place, domain in enumerate(journey.order):
        colour = COLOURS[place % len(COLOURS)]
        readings = [scores[label][domain] for label in labels]
        means = [float(np.mean(reading)) for reading in readings]
        bounds = [cell_interval(reading, domain) for reading in readings]
        low = [m if b.low is None else b.low for m, b in zip(means, bounds, strict=True)]
        high = [m if b.high is None else b.high for m, b in zip(means, bounds, strict=True)]
        ends += [*low, *high]
        axes.fill_between(range(len(labels)), low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(range(len(labels)), means, "o-", color=colour, label=domain)
        axes.plot(place + 1, means[place + 1], "s", color=colour, markersize=9)
    names = [BASE, *(f"after {journey.order[int(label)]}" for label in labels[1:])]
    axes.set_xticks(range(len(labels)), names)
    bottom, top = _span(ends)
    axes.set_ylim(bottom - 0.02 * (top - bottom), top + 0.02 * (top - bottom))
    axes.set_ylabel("score")
    axes.set_title("Every domain, stage by stage (square: just trained)", loc="left",
                   fontweight="bold")  # fmt: skip
    axes.legend(frameon=False)
    figure.savefig(file, dpi=150, metadata=_NAMELESS)


def _span(values: ArrayLike) -> tuple[float, float]:
    """0 to 1, where shares lie and most rewards do, or as far as the values go beyond."""
    return float(np.nanmin(values, initial=0.0)), float(np.nanmax(values, initial=1.0))


def _figure(width: float, height: float) -> Any:
    figures = import_package("matplotlib.figure", "Plotting", "plot")
    return figures.Figure(figsize=(width, height), layout="constrained")

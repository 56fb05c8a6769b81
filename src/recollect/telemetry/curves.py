"""The numbers behind a learning curve: runs with the same label become a band."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Literal

import numpy as np

from recollect.telemetry.reading import Floats, RunMetrics, Series

Axis = Literal["step", "rollouts", "minutes"]

_CSV_TITLES = ("metric", "label", "run", "step", "rollouts", "seconds", "value")


@dataclass(frozen=True, slots=True)
class Thread:
    """One run's points; NaN marks a gap that no line may cross."""

    run: str
    x: Floats
    values: Floats


@dataclass(frozen=True, slots=True)
class Curve:
    """One label's runs for one metric, with mean, minimum and maximum over the runs.

    The three are NaN where a run has no finite value: a mean over fewer runs than its
    neighbours would show a jump that no run made.
    """

    label: str
    threads: tuple[Thread, ...]
    x: Floats
    mean: Floats
    low: Floats
    high: Floats


def make_curve(label: str, runs: Sequence[RunMetrics], metric: str, axis: Axis) -> Curve | None:
    """Collect one metric of the runs of a label; None if none of them logged it."""
    found = [(run.path.parent.name, run.series(metric)) for run in runs]
    found = [(name, series) for name, series in found if len(series.values)]
    if not found:
        return None
    threads = tuple(
        Thread(name, *_with_gaps(series.steps, position(series, axis), series.values))
        for name, series in found
    )
    every = [series for _, series in found]
    steps = np.unique(np.concatenate([series.steps for series in every]))
    values = np.stack([_at(steps, series, series.values) for series in every])
    places = np.stack([_at(steps, series, position(series, axis)) for series in every])
    rows = np.stack([places.mean(0), values.mean(0), values.min(0), values.max(0)])
    x, mean, low, high = _with_gaps(steps, *rows)
    return Curve(label, threads, x, mean, low, high)


def position(series: Series, axis: Axis) -> Floats:
    """Where a series' points stand on the horizontal axis."""
    if axis == "rollouts":
        return series.rollouts
    return series.seconds / 60 if axis == "minutes" else series.steps


def _at(steps: Floats, series: Series, values: Floats) -> Floats:
    """A run's values at given steps, NaN where it has none."""
    found = np.full(len(steps), np.nan)
    found[np.searchsorted(steps, series.steps)] = values
    return found


def _with_gaps(steps: Floats, *columns: Floats) -> tuple[Floats, ...]:
    """Put NaN between points that stand much further apart than points usually do."""
    apart = np.diff(steps)
    if not len(apart):
        return columns
    holes = np.flatnonzero(apart > 2 * np.median(apart)) + 1
    return tuple(np.insert(column, holes, np.nan) for column in columns)


def label_of(runs: Sequence[RunMetrics]) -> str:
    """Name runs by what their folders' names have in common: demo-0 and demo-1 are demo."""
    names = [run.path.parent.name for run in runs]
    if len(names) == 1:
        return names[0]
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    shared = "".join(letters[0] for letters in same)
    return shared.rstrip("0123456789-_. ") or f"{len(names)} runs"


def write_csv(
    path: Path, groups: Mapping[str, Sequence[RunMetrics]], metrics: Sequence[str]
) -> None:
    """Write every point that was drawn, one per row; an empty value was not finite."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_CSV_TITLES)
        for metric in metrics:
            for label, runs in groups.items():
                for run in runs:
                    series = run.series(metric)
                    columns = (series.steps, series.rollouts, series.seconds, series.values)
                    for row in np.stack(columns, axis=1).tolist():
                        cells = ["" if np.isnan(cell) else repr(cell) for cell in row[1:]]
                        name = run.path.parent.name
                        writer.writerow([metric, label, name, int(row[0]), *cells])

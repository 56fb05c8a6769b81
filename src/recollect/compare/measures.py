"""What a run achieved, read from its metrics.jsonl and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recollect.telemetry.reading import RunMetrics, read_metrics
from recollect.telemetry.scores import pool

REPLAY_RATIO = "replay/ratio"  # counts from the run's beginning, so the last one is the run's
_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Point:
    """One evaluation: rollouts generated and seconds trained before it, and pooled success.

    Seconds are the sum of `time/step`: evaluations and checkpoints are not in it.
    """

    step: int
    rollouts: float
    seconds: float
    success: float


@dataclass(frozen=True, slots=True)
class RunCurve:
    """A run's evaluations in order, and what it used up in all.

    `diverged`: training gave up before the last step, so nothing after it can be measured.
    """

    arm: str
    seed: int
    path: Path
    points: tuple[Point, ...]
    rollouts: float
    seconds: float
    replay_ratio: float | None
    diverged: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """What a run had used up when it first reached the target; None: never, `within` so much."""

    value: float | None
    within: float

    @property
    def number(self) -> float:
        """The value, with infinity for never."""
        return math.inf if self.value is None else self.value

    @property
    def least(self) -> float:
        """What is certain: the value, or for never a little more than all that was used up."""
        return math.nextafter(self.within, math.inf) if self.value is None else self.value


@dataclass(frozen=True, slots=True)
class Span:
    """The rollouts that all runs of a study have measured, and the seconds all have trained."""

    first: float
    last: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Measures:
    """The figures of one run. None: not known, never 0.

    `area` is the area under success over generated rollouts, divided by the width of the
    study's span: mean success while learning, between 0 and 1.
    """

    arm: str
    seed: int
    path: Path
    rollouts_to_target: Reach
    seconds_to_target: Reach
    first: float | None
    final: float | None
    best: float | None
    area: float | None
    replay_ratio: float | None
    rollouts: float
    seconds: float
    diverged: bool


def read_curve(path: Path, arm: str, seed: int, *, diverged: bool = False) -> RunCurve:
    """Read a run's folder; evaluations of other splits than the first one's are left out."""
    run = read_metrics(path)
    used = _used(run)
    split = run.evaluations[0].split if run.evaluations else ""
    points = []
    for line in run.evaluations:
        success = pool(line.scores).success
        if line.split == split and success is not None:
            points.append(Point(line.step, *used.get(line.step, (_NAN, _NAN)), success))
    rollouts, seconds = used[max(used)]
    ratios = run.series(REPLAY_RATIO).values
    known = ratios[np.isfinite(ratios)]
    ratio = float(known[-1]) if len(known) else None
    return RunCurve(arm, seed, path, tuple(points), rollouts, seconds, ratio, diverged)


def common_span(curves: Sequence[RunCurve]) -> Span:
    """Find what every run has measured. A diverged run counts as if it had gone on unchanged."""
    counted = [curve for curve in curves if not curve.diverged] or list(curves)
    firsts = [curve.points[0].rollouts for curve in counted if curve.points]
    lasts = [curve.points[-1].rollouts for curve in counted if curve.points]
    return Span(
        max(firsts, default=0.0),
        min(lasts, default=0.0),
        min((curve.seconds for curve in counted), default=0.0),
    )


def measure(curve: RunCurve, target: float, span: Span) -> Measures:
    """Work out the figures of one run."""
    reached = next((point for point in curve.points if point.success >= target), None)
    successes = [point.success for point in curve.points]
    return Measures(
        arm=curve.arm,
        seed=curve.seed,
        path=curve.path,
        rollouts_to_target=Reach(reached.rollouts if reached else None, curve.rollouts),
        seconds_to_target=Reach(reached.seconds if reached else None, curve.seconds),
        first=successes[0] if successes else None,
        final=successes[-1] if successes else None,
        best=max(successes, default=None),
        area=area(curve, span),
        replay_ratio=curve.replay_ratio,
        rollouts=curve.rollouts,
        seconds=curve.seconds,
        diverged=curve.diverged,
    )


def area(curve: RunCurve, span: Span) -> float | None:
    """Mean height of the success curve within a span of rollouts; None where there is no width.

    Straight lines between evaluations. A run that ends earlier stays where it was, which only
    a diverged one does.
    """
    x = np.array([point.rollouts for point in curve.points], dtype=np.float64)
    y = np.array([point.success for point in curve.points], dtype=np.float64)
    if not len(x) or not span.first < span.last or not np.isfinite(x).all():
        return None
    inside = x[(x > span.first) & (x < span.last)]
    at = np.concatenate([[span.first], inside, [span.last]])
    heights = np.interp(at, x, y)
    whole = float(np.sum(np.diff(at) * (heights[1:] + heights[:-1]) / 2))
    return whole / (span.last - span.first)


def _used(run: RunMetrics) -> dict[int, tuple[float, float]]:
    """Rollouts generated and seconds trained after each step."""
    rollouts, seconds = 0.0, 0.0
    found = {0: (0.0, 0.0)}
    for line in run.steps:
        rows = line.metrics.get("rollout/rows", 0.0)
        rollouts = line.metrics.get("rollout/rows_total", rollouts + rows)
        seconds += line.metrics.get("time/step", _NAN)
        found[line.step] = (rollouts, seconds)
    return found

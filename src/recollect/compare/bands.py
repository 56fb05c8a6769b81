"""Curves of one arm's seeds, brought to one axis: the mean, and the range from least to most."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from recollect.compare.measures import Point, RunCurve
from recollect.compare.statistics import Floats
from recollect.telemetry.reading import RunMetrics

_QUANTILE = re.compile(r"(?P<stem>.+?)[_/](?P<part>p\d+|min|mean|median|max)\Z")
_FEW = 4  # tags that still fit a title
_MEMBER = re.compile(r"(?P<stem>.+?)(/(?P<part>[^/]+)|_(?P<digit>\d[\d.]*))\Z")


@dataclass(frozen=True, slots=True)
class Thread:
    """One seed's points; x never falls."""

    seed: int
    x: Floats
    y: Floats


@dataclass(frozen=True, slots=True)
class Band:
    """One arm's seeds. Mean and range are given where every seed has been measured.

    `place` is the arm's place, which decides its colour; `tag` is written at the line's end.
    """

    label: str
    place: int
    threads: tuple[Thread, ...]
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """Metrics that are drawn into one picture, each with the tag that tells it apart."""

    title: str
    members: tuple[tuple[str, str], ...]


def make_band(label: str, place: int, threads: Sequence[Thread], tag: str = "") -> Band | None:
    """Interpolate between each seed's points; None where nobody measured anything."""
    found = tuple(thread for thread in threads if len(thread.x))
    if not found:
        return None
    first = max(float(thread.x[0]) for thread in found)
    last = min(float(thread.x[-1]) for thread in found)
    every = np.unique(np.concatenate([thread.x for thread in found]))
    x = every[(every >= first) & (every <= last)]
    rows = np.stack([np.interp(x, thread.x, thread.y) for thread in found])
    return Band(label, place, found, x, rows.mean(0), rows.min(0), rows.max(0), tag)


def success_band(
    label: str, place: int, curves: Sequence[RunCurve], axis: Callable[[Point], float]
) -> Band | None:
    """Success over what `axis` takes from an evaluation: its rollouts, or its seconds."""
    threads = [
        _finite(curve.seed, [axis(p) for p in curve.points], [p.success for p in curve.points])
        for curve in curves
    ]
    return make_band(label, place, threads)


def metric_band(
    label: str, place: int, runs: Sequence[tuple[int, RunMetrics]], name: str, tag: str = ""
) -> Band | None:
    """One logged metric over training steps; what is not finite is left out."""
    series = [(seed, run.series(name)) for seed, run in runs]
    threads = [_finite(seed, found.steps, found.values) for seed, found in series]
    return make_band(label, place, threads, tag)


def metric_panels(names: Sequence[str]) -> list[Panel]:
    """Sort metrics into panels, in the order of their first members.

    `age_p50`, `age_p99` and `age_max` share a panel, and so do `bucket/0.25` and `bucket/0.5`.
    A metric without relatives has a panel of its own; so has `ratio` beside `ratio_max`, which
    may measure something else.
    """
    families: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name in names:
        quantile, member = _QUANTILE.match(name), _MEMBER.match(name)
        match = quantile or (member if member and "/" in member["stem"] else None)
        stem = match["stem"] if match else name
        kind = "quantile" if quantile else "member" if match else "alone"
        families.setdefault((stem, kind), []).append((name, name[len(stem) + 1 :]))
    panels = []
    for (stem, _), members in families.items():
        if len(members) == 1:
            name = members[0][0]
            panels.append(Panel(name, ((name, ""),)))
            continue
        tags = ", ".join(tag for _, tag in members)
        title = f"{stem} ({tags})" if len(members) <= _FEW else stem
        panels.append(Panel(title, tuple(members)))
    return panels


def _finite(seed: int, x: Sequence[float] | Floats, y: Sequence[float] | Floats) -> Thread:
    across, up = np.array(x, dtype=np.float64), np.array(y, dtype=np.float64)
    known = np.isfinite(across) & np.isfinite(up)
    return Thread(seed, across[known], up[known])

"""Intervals for a score matrix and what it says: tasks are resampled, and stay paired.

Every model is examined on the same tasks with the same users, so a resample draws tasks and takes
all models' scores on them together: what makes a task hard for one makes it hard for all, and
cancels in differences. 95 % percentile intervals (Efron and Tibshirani 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.continual.matrix import Measure, ScoreMatrix, Scores, Undefined
from recollect.randomness import stream

RESAMPLES = 2000
_TAIL = 0.025
_FEWEST = 2  # tasks of a domain: one alone says nothing about others

# By name of a model ("base", "joint", "single", "0", "1", ...), then by domain: one score per
# task, in the same order of tasks for every model.
TaskScores: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval; None where there are too few tasks for one."""

    low: float | None
    high: float | None


NOT_KNOWN = Interval(None, None)


def build_matrix(domains: Sequence[str], scores: TaskScores) -> ScoreMatrix:
    """Make the matrix of the means over tasks; what was not examined stays unknown."""
    return _matrix(domains, scores, {})


def cell_interval(scores: Sequence[float], name: str) -> Interval:
    """Interval of a mean over tasks."""
    if len(scores) < _FEWEST:
        return NOT_KNOWN
    means = _weights(name, len(scores)) @ np.asarray(scores, dtype=np.float64)
    return _percentiles(means)


def measure_interval(
    domains: Sequence[str], scores: TaskScores, measure: Callable[[ScoreMatrix], Measure]
) -> Interval:
    """Interval of a figure of the matrix; none where the figure itself is undefined."""
    if isinstance(measure(build_matrix(domains, scores)), Undefined):
        return NOT_KNOWN
    sizes = {name: len(row) for rows in scores.values() for name, row in rows.items()}
    if min(sizes.values(), default=0) < _FEWEST:
        return NOT_KNOWN
    means = {
        (model, domain): _weights(domain, len(row)) @ np.asarray(row, dtype=np.float64)
        for model, rows in scores.items()
        for domain, row in rows.items()
    }
    found = []
    for number in range(RESAMPLES):
        drawn = {place: float(values[number]) for place, values in means.items()}
        value = measure(_matrix(domains, scores, drawn))
        if not isinstance(value, Undefined):
            found.append(value)
    return _percentiles(np.array(found)) if found else NOT_KNOWN


def _matrix(
    domains: Sequence[str], scores: TaskScores, drawn: Mapping[tuple[str, str], float]
) -> ScoreMatrix:
    def row(model: str) -> Scores | None:
        if model not in scores:
            return None
        return tuple(_mean(scores[model].get(d), drawn.get((model, d))) for d in domains)

    stages: list[Scores] = []
    while (found := row(str(len(stages)))) is not None:
        stages.append(found)
    return ScoreMatrix(tuple(domains), tuple(stages), row("base"), row("single"), row("joint"))


def _mean(values: Sequence[float] | None, drawn: float | None) -> float | None:
    if drawn is not None or not values:
        return drawn
    return float(np.mean(values))


def _weights(name: str, tasks: int) -> NDArray[np.float64]:
    """Shares [RESAMPLES, tasks] of each task; the same for every model, by the domain's name."""
    rng = stream(0, "continual-bootstrap", name, tasks)
    return rng.multinomial(tasks, np.full(tasks, 1 / tasks), RESAMPLES) / tasks


def _percentiles(values: NDArray[np.float64]) -> Interval:
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    return Interval(float(low), float(high))

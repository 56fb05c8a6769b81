"""What a step trains on: scored rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A trajectory with its advantage. Without signal it has no say in the gradient."""

    trajectory: Trajectory
    advantage: float
    signal: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one update, in a fixed order."""

    rows: tuple[ScoredRow, ...]

    @property
    def training(self) -> tuple[ScoredRow, ...]:
        """Rows that carry gradient."""
        return tuple(row for row in self.rows if row.signal)


def minibatches(rows: Sequence[ScoredRow], count: int) -> list[tuple[ScoredRow, ...]]:
    """Cut rows into `count` parts of nearly equal size, keeping their order; empty parts go."""
    size, rest = divmod(len(rows), count)
    parts, start = [], 0
    for number in range(count):
        end = start + size + (number < rest)
        if end > start:
            parts.append(tuple(rows[start:end]))
        start = end
    return parts

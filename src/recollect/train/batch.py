"""What a step trains on: scored rows, fresh and replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.replay.pick import Pick
from recollect.train.credit import Credit
from recollect.trajectory import Trajectory


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRow:
    """A trajectory with its advantage. Without signal it has no say in the gradient.

    `pick` says how a replayed row came here; None means that it is fresh. `stripped` rows were
    sampled with notes in their prompt, which this view of them lacks. With a critic `credit` holds
    the advantages of the tokens, of which `advantage` is the mean before whitening.
    """

    trajectory: Trajectory
    advantage: float
    signal: bool
    pick: Pick | None = None
    stripped: bool = False
    credit: Credit | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one update, in a fixed order.

    `rows` were scored together; `extra` are further updates on stored rows, each with the
    advantages its rows had. `push` is the sum of advantages that rows kept out of the gradient
    left unbalanced.
    """

    rows: tuple[ScoredRow, ...]
    extra: tuple[tuple[ScoredRow, ...], ...] = ()
    push: float = 0.0

    @property
    def training(self) -> tuple[ScoredRow, ...]:
        """Rows that carry gradient, without the extra updates."""
        return tuple(row for row in self.rows if row.signal)


def by_group(rows: Sequence[ScoredRow]) -> tuple[ScoredRow, ...]:
    """Put stored rows beside the fresh rows of their group, in whatever minibatch those are."""
    places: dict[str, int] = {}

    def place(row: ScoredRow) -> int:
        group = row.trajectory.group if row.pick is None else row.pick.group
        return places.setdefault(group, len(places))

    return tuple(sorted(rows, key=place))


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

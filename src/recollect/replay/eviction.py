"""What leaves the pool: rows that were never to be kept, and the most useless beyond a budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.config.schema.pool import within
from recollect.replay.book import Result
from recollect.replay.pool import Pool
from recollect.trajectory import Trajectory
from recollect.types import TrajectoryId

Floats: TypeAlias = NDArray[np.floating[Any]]

_TOKEN_BYTES = 8  # the id, and the text it stands for
_SAMPLED_BYTES = 9  # log-prob, entropy, mask
_ROW_BYTES = 512  # everything else


@dataclass(frozen=True, slots=True)
class Keeping:
    """Which rows of a fresh group are kept for replay.

    Groups outside the bounds keep none (None = no bound); the bounds are in successes or, with
    `as_rate`, in success rates. `successes_only` keeps the successes of the others.
    """

    lower: float | None = None
    upper: float | None = None
    as_rate: bool = True
    inclusive: bool = False
    successes_only: bool = False

    def keeps(self, result: Result) -> bool:
        """Tell whether the group is inside the bounds."""
        value = result.successes / result.rows if self.as_rate else float(result.successes)
        return within(value, self.lower, self.upper, self.inclusive)

    def unkept(
        self, rows: Iterable[Trajectory], results: Iterable[Result]
    ) -> dict[TrajectoryId, str]:
        """Name the fresh rows that are not kept for replay, with the reason."""
        outside = {result.task for result in results if not self.keeps(result)}
        found: dict[TrajectoryId, str] = {}
        for row in rows:
            if row.task in outside:
                found[row.id] = "its group's successes are outside pool.lower to pool.upper"
            elif self.successes_only and not row.success:
                found[row.id] = "a failure, and pool.keep is successes"
        return found


def beyond_task(
    pool: Pool, rows: NDArray[np.int64], badness: Floats, most: int
) -> NDArray[np.int64]:
    """Find those of `rows` [positions] that are not among the `most` best of their task.

    `badness` [len(rows)] sorts them, the newer first of two equal ones; pinned rows stay, and
    count among the best.
    """
    tasks, pinned = pool.facts["task"][rows], pool.pinned[rows]
    order = np.lexsort((-rows, badness, ~pinned, tasks))
    in_order = tasks[order]
    starts = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]])
    place = np.arange(rows.size) - np.repeat(starts, np.diff(np.r_[starts, rows.size]))
    over = order[place >= most]
    return np.sort(rows[over[~pinned[over]]])


def counted_bytes(pool: Pool) -> NDArray[np.int64]:
    """Size of each row [n] as budgets count it: by its tokens, whatever its frame came to.

    A frame holds times of day and may be compressed: its own size is a little different when a
    run is repeated, and what is evicted must not be.
    """
    tokens, sampled = pool.facts["tokens"].astype(np.int64), pool.facts["sampled"]
    return np.asarray(tokens * _TOKEN_BYTES + sampled * _SAMPLED_BYTES + _ROW_BYTES)


def beyond_budget(
    pool: Pool,
    rows: NDArray[np.int64],
    useful: Floats,
    max_rows: int | None,
    max_bytes: int | None,
    arriving: int = 0,
) -> NDArray[np.int64]:
    """Find those of `rows` [positions] to let go so that both budgets hold; pinned ones stay.

    The least useful go first (`useful` [len(rows)]; below 0 for rows that cannot be drawn), the
    older of two. `arriving` rows, of mean size, are about to come and need room as well.
    """
    if not rows.size:
        return rows
    sizes = counted_bytes(pool)[rows]
    held = int(sizes.sum())
    expected = held + arriving * held // rows.size
    many = rows.size + arriving - max_rows if max_rows is not None else 0
    surplus = expected - max_bytes if max_bytes is not None else 0
    free = np.flatnonzero(~pool.pinned[rows])
    order = free[np.argsort(useful[free], kind="stable")]
    for_bytes = int(np.searchsorted(np.cumsum(sizes[order]), surplus)) + 1 if surplus > 0 else 0
    return np.sort(rows[order[: max(many, for_bytes, 0)]])

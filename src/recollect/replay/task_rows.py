"""Where the rows of a task are, without looking at those of the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recollect.replay.groups import Ints, spans
from recollect.replay.pool import Pool

_RADIX = 15  # bits; numpy sorts numbers of 16 bits in one pass
_SHARE, _LEAST = 16, 4096  # rows that may lie unsorted: a share of all, or so many


class TaskRows:
    """Rows of the pool by task. Sorted once; later arrivals are looked through until they are many.

    A row that leaves the pool moves the others, and all are sorted again when next asked.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._moves = -1
        self._order = np.empty(0, np.int32)
        self._starts = np.zeros(1, np.int64)

    def of(self, numbers: NDArray[np.integer]) -> tuple[Ints, Ints]:
        """Rows [positions] of tasks, task by task and ascending, and where each task's begin."""
        self._follow()
        known = np.minimum(np.asarray(numbers, np.int64), self._starts.size - 2)
        begins = self._starts[known]
        sizes = np.where(numbers == known, self._starts[known + 1] - begins, 0)
        places, starts = spans(begins, sizes)
        rows = self._order[places].astype(np.int64)
        late = self._pool.facts["task"][self._order.size :]
        if not late.size or not len(numbers):
            return rows, starts
        turn = np.full(max(int(late.max()), int(np.max(numbers))) + 1, -1)
        turn[numbers] = np.arange(len(numbers))
        which = turn[late]
        new = np.flatnonzero(which >= 0)
        label = np.concatenate((np.repeat(np.arange(sizes.size), sizes), which[new]))
        rows = np.concatenate((rows, new + self._order.size))
        rows = rows[np.argsort(label, kind="stable")]
        sizes = np.bincount(label, minlength=len(numbers))
        return rows, np.cumsum(sizes) - sizes

    def _follow(self) -> None:
        size, held = len(self._pool), self._order.size
        if self._moves == self._pool.moves and size - held <= max(_LEAST, size // _SHARE):
            return
        task = self._pool.facts["task"]
        order = np.argsort((task & ((1 << _RADIX) - 1)).astype(np.int16), kind="stable")
        high = task >> _RADIX
        if high.any():
            order = order[np.argsort(high[order].astype(np.int16), kind="stable")]
        sizes = np.bincount(task, minlength=1)
        self._order = order.astype(np.int32)
        self._starts = np.concatenate(([0], np.cumsum(sizes)))
        self._moves = self._pool.moves

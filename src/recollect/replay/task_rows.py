"""Where the rows of a task are, without looking at those of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.replay.groups import Ints, spans
from recollect.replay.pool import Pool

_RADIX = 15  # bits; numpy sorts numbers of 16 bits in one pass
_SHARE, _LEAST = 16, 4096  # rows that may lie unsorted: a share of all, or so many


class TaskRows:
    """Rows of the pool by task. Sorted once; later arrivals are looked through until they are many.

    When rows leave the pool the others move up: one pass, no sorting.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known = pool.attach(np.int32)  # 1 + position when it was last noted; 0 = late
        self._moves = pool.moves
        self._size = 0
        self._order = np.empty(0, np.int32)
        self._starts = np.zeros(2, np.int64)
        self._late = np.empty(0, np.int64)

    def of(self, numbers: NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
        """Rows [positions] of tasks, task by task and ascending, and where each task's begin."""
        self._follow()
        known = np.minimum(np.asarray(numbers, np.int64), self._starts.size - 2)
        begins = self._starts[known]
        sizes = np.where(numbers == known, self._starts[known + 1] - begins, 0)
        places, starts = spans(begins, sizes)
        rows = self._order[places].astype(np.int64)
        if not self._late.size or not len(numbers):
            return rows, starts
        late = self._pool.facts["task"][self._late]
        turn = np.full(max(int(late.max()), int(np.max(numbers))) + 1, -1)
        turn[numbers] = np.arange(len(numbers))
        which = turn[late]
        new = np.flatnonzero(which >= 0)
        # Both are put in one order, by task and then by row; the late ones are few.
        size = len(self._pool)
        keys = np.repeat(np.arange(sizes.size), sizes) * size + rows
        late_keys = np.sort(which[new] * size + self._late[new])
        rows = np.insert(rows, np.searchsorted(keys, late_keys), late_keys % size)
        sizes = sizes + np.bincount(which[new], minlength=sizes.size)
        return rows, np.cumsum(sizes) - sizes

    def _follow(self) -> None:
        size = len(self._pool)
        if self._moves != self._pool.moves:
            self._move_up()
        elif size > self._size:
            self._late = np.concatenate((self._late, np.arange(self._size, size)))
        self._size, self._moves = size, self._pool.moves
        if self._late.size > max(_LEAST, size // _SHARE):
            self._sort()

    def _move_up(self) -> None:
        """Find the rows again after some left the pool, or came back into its midst."""
        known = self._known.values
        here = np.flatnonzero(known)
        now = np.full(self._size, -1, np.int32)
        now[known[here] - 1] = here
        order = now[self._order]
        self._order = order[order >= 0]
        known[here] = here + 1
        self._begin(self._pool.facts["task"][here])
        self._late = np.flatnonzero(known == 0)

    def _sort(self) -> None:
        task = self._pool.facts["task"]
        order = np.argsort((task & ((1 << _RADIX) - 1)).astype(np.int16), kind="stable")
        high = task >> _RADIX
        if high.any():
            order = order[np.argsort(high[order].astype(np.int16), kind="stable")]
        self._order = order.astype(np.int32)
        self._known.values[:] = np.arange(1, task.size + 1)
        self._begin(task)
        self._late = np.empty(0, np.int64)

    def _begin(self, tasks: NDArray[np.int32]) -> None:
        """Note where each task begins among the sorted rows."""
        self._starts = np.concatenate(([0], np.cumsum(np.bincount(tasks, minlength=1))))

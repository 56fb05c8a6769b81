"""The weight of each task: the sum of its rows' weights, and how many have one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from recollect.replay.groups import Ints, labels_of
from recollect.replay.pool import Pool
from recollect.replay.task_rows import TaskRows

_SHARE = 8  # beyond this share of all rows, a pass over all is quicker than finding them


class TaskTotals:
    """Sum and number of the weights above 0 by the pool's task number.

    A task that was touched is summed again from its rows, in their order, so that what is known
    here is a function of the weights alone, whatever happened before.
    """

    def __init__(
        self, pool: Pool, rows: TaskRows, weights: Callable[[], NDArray[np.float64]]
    ) -> None:
        self._pool = pool
        self._rows = rows
        self._weights = weights
        self._sums = np.zeros(0)
        self._counts = np.zeros(0, np.int64)
        self._touched: set[int] | None = None  # None = all

    def touch(self, rows: Ints) -> None:
        """Take in that the weights of these rows changed."""
        if self._touched is not None:
            self._touched.update(np.unique(self._pool.facts["task"][rows]).tolist())

    def forget(self) -> None:
        """Take in that anything may have changed."""
        self._touched = None

    def totals(self) -> tuple[NDArray[np.float64], Ints]:
        """Sums and numbers [tasks]."""
        if self._touched is None or not self._follow(np.array(sorted(self._touched), np.int64)):
            tasks, weights = self._pool.facts["task"], self._weights()
            self._sums = np.bincount(tasks, weights).astype(np.float64)
            self._counts = np.bincount(tasks[weights > 0], minlength=self._sums.size)
        self._touched = set()
        return self._sums, self._counts

    def _follow(self, touched: Ints) -> bool:
        """Sum some tasks again; tell whether that was the way to go."""
        if not touched.size:
            return True
        rows, starts = self._rows.of(touched)
        if rows.size > len(self._pool) // _SHARE:
            return False
        size = max(self._sums.size, int(touched[-1]) + 1)
        self._sums = np.pad(self._sums, (0, size - self._sums.size))
        self._counts = np.pad(self._counts, (0, size - self._counts.size))
        label = labels_of(starts, rows.size)
        weights = self._weights()[rows]
        # Sequentially, in order of the rows, as a pass over all of them does.
        self._sums[touched] = np.bincount(label, weights, touched.size)
        self._counts[touched] = np.bincount(label[weights > 0], minlength=touched.size)
        return True

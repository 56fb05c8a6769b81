"""The journal: which rows of the pool changed, for those who keep figures of their own on them."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

_MOST_ENTRIES = 256
_MOST_ROWS = 1 << 18  # more than this is read faster from the pool itself


class Journal:
    """Rows that came or changed, by their `seq`, entry by entry.

    A reader remembers `place` and asks later what came after it. Old entries are forgotten; a
    reader that comes too late is told so, and looks at everything.
    """

    def __init__(self) -> None:
        self._entries: deque[NDArray[np.int64]] = deque()
        self._first = 0  # number of the oldest entry that is kept
        self._rows = 0

    @property
    def place(self) -> int:
        """Where the journal ends now."""
        return self._first + len(self._entries)

    def write(self, rows: NDArray[np.int64]) -> None:
        """Note that these rows came or changed."""
        if not rows.size:
            return
        self._entries.append(np.array(rows, dtype=np.int64))
        self._rows += rows.size
        while len(self._entries) > _MOST_ENTRIES or self._rows > _MOST_ROWS:
            self._rows -= self._entries.popleft().size
            self._first += 1

    def since(self, place: int) -> NDArray[np.int64] | None:
        """Rows [seq, ascending] that changed after this place; None if that is not known any more.

        They may be gone from the pool.
        """
        if place < self._first:
            return None
        entries = list(self._entries)[place - self._first :]
        return np.unique(np.concatenate(entries)) if entries else np.empty(0, np.int64)

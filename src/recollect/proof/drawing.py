"""Draws without replacement: included exactly as often as the ledger says."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.errors import PromiseBroken
from recollect.replay.sampling import systematic

_WEIGHTS = (0.1, 0.2, 0.3, 0.4)


class Scripted:
    """A generator that says what it is told to: the order of the items and the first mark."""

    def __init__(self, order: tuple[int, ...], start: float) -> None:
        self._order, self._start = order, start

    def permutation(self, what: Any) -> Any:
        """Give the order."""
        return what[list(self._order)]

    def random(self) -> float:
        """Give the first mark."""
        return self._start


def enumerate_draws(starts: int) -> float:
    """Draw two of four in every order and from every start; returns the largest deviation.

    PromiseBroken where an item is drawn more or less often than its probability says. With so
    many starts each frequency is exact to one of them.
    """
    weights: NDArray[np.float64] = np.array(_WEIGHTS)
    largest = 0.0
    for order in itertools.permutations(range(len(_WEIGHTS))):
        found = np.zeros(len(_WEIGHTS))
        for start in range(starts):
            rng: Any = Scripted(order, (start + 0.5) / starts)
            drawn = systematic(weights, 2, rng)
            if len(set(drawn.tolist())) != 2:
                raise PromiseBroken(f"order {order}: an item was drawn twice")
            found[drawn] += 1
        off = float(np.abs(found / starts - 2 * weights).max())
        if off > 1.01 / starts:
            raise PromiseBroken(f"order {order}: drawn {found / starts}, told {2 * weights}")
        largest = max(largest, off)
    return largest

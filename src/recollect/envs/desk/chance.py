"""Seeded chance, fast. Tasks are made by the thousand; `random.choice` would be a third of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


class Chance:
    """Draws that follow from a seed alone, by scaling floats.

    The bias of scaling (about n / 2^53) is nothing here, and floats of the Mersenne Twister
    are the same on every platform and Python version.
    """

    __slots__ = ("_draw",)

    def __init__(self, seed: str | int) -> None:
        self._draw = random.Random(seed).random  # noqa: S311 - chance, not secrecy

    def below(self, n: int) -> int:
        """Give a whole number from 0 to n - 1."""
        return int(self._draw() * n)

    def between(self, low: int, high: int) -> int:
        """Give a whole number from low to high, both included."""
        return low + int(self._draw() * (high - low + 1))

    def happens(self, probability: float) -> bool:
        """Tell whether something of this probability happens."""
        return self._draw() < probability

    def pick(self, choices: Sequence[_T]) -> _T:
        """Choose one."""
        return choices[int(self._draw() * len(choices))]

    def sample(self, choices: Sequence[_T], count: int) -> list[_T]:
        """Choose several different ones, in random order."""
        pool = list(choices)
        draw = self._draw
        for place in range(count):
            other = place + int(draw() * (len(pool) - place))
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]

"""Several lines of tasks as one: they take turns, so that the beginning of a split is a mixture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def in_turn(lines: Iterable[Iterator[Item]]) -> Iterator[Item]:
    """Yield the first of each line, then the second of each; a line that ends drops out."""
    going = list(lines)
    while going:
        left = []
        for line in going:
            for item in line:
                left.append(line)
                yield item
                break
        going = left

"""Cutting a list into shares for several processes."""

from __future__ import annotations

from collections.abc import Sequence


def cut(costs: Sequence[float], parts: int) -> list[range]:
    """Cut a list into `parts` consecutive ranges of nearly equal cost; every place is in one.

    Place i goes where the middle of its cost falls: consecutive places mostly share a prompt, which
    is computed once. Some ranges are empty where there are fewer places than parts.
    """
    total = float(sum(costs)) or 1.0
    ends, before = [0] * parts, 0.0
    for place, cost in enumerate(costs, start=1):
        part = min(parts - 1, int(parts * (before + cost / 2) / total))
        ends[part] = place
        before += cost
    ranges, start = [], 0
    for end in ends:
        ranges.append(range(start, max(start, end)))
        start = max(start, end)
    return ranges

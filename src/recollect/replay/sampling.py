"""Drawing without replacement with inclusion probabilities that are known exactly.

`inclusion` turns weights into probabilities that sum to the number of draws; `systematic` draws
so that each item is included with exactly its probability. Everything else in this room (buckets,
priorities, quotas) only decides on weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

_BLOCK = 1024  # items that are shuffled among themselves; blocks are shuffled as a whole


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Positions that were drawn, ascending, each once, and how likely each was to be drawn."""

    positions: NDArray[np.int64]
    probabilities: NDArray[np.float64]


NOTHING = Drawn(np.empty(0, np.int64), np.empty(0, np.float64))


def inclusion(weights: Floats, count: int) -> tuple[float, NDArray[np.int64]]:
    """Find the scale c and the certain items of p_i = min(1, c w_i) with sum p = count.

    `weights` [n] are finite and >= 0. Items whose weight is large enough are certain (p = 1) and
    what they cannot take goes to the others in proportion. With fewer than `count` weights above 0
    all of those are certain, and c is infinite.
    """
    positive = int(np.count_nonzero(weights))
    if positive <= count:
        return float("inf"), np.flatnonzero(weights)
    certain = np.empty(0, np.int64)
    total, left = float(weights.sum(dtype=np.float64)), count
    while True:
        scale = left / total
        found = np.flatnonzero(weights * scale >= 1.0)
        if found.size == certain.size:
            return scale, certain
        certain = found
        left = count - certain.size
        total = float(weights.sum(dtype=np.float64) - weights[certain].sum(dtype=np.float64))


def draw(weights: Floats, count: int, rng: np.random.Generator) -> Drawn:
    """Draw `count` different items (fewer if fewer have a weight), by probability ~ weight.

    Promises: item i is included with probability min(1, c w_i) exactly (see `inclusion`), and
    that probability is returned with it. Equal generators give equal draws.
    """
    if count <= 0 or not weights.size:
        return NOTHING
    scale, certain = inclusion(weights, count)
    if certain.size == count or np.isinf(scale):
        return Drawn(certain, np.ones(certain.size))
    rest = np.array(weights, dtype=np.float64) if certain.size else weights
    rest[certain] = 0.0
    chosen = systematic(rest, count - certain.size, rng)
    positions = np.concatenate((certain, chosen))
    probabilities = np.concatenate((np.ones(certain.size), weights[chosen] * scale))
    order = np.argsort(positions, kind="stable")
    return Drawn(positions[order], np.minimum(probabilities[order], 1.0))


def systematic(weights: Floats, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw `count` items by Madow's systematic sampling, in a random order of the items.

    No weight may exceed sum / count. `count` marks at equal distances, from a random start, are
    laid over the weights put end to end; the item under a mark is drawn. Whatever the order, an
    item is hit with probability count w / sum. The order is random in blocks (whole blocks, and
    the items inside the blocks that were hit), so that a million items cost two passes.
    """
    blocks = -(-weights.size // _BLOCK)
    sums = np.add.reduceat(weights, np.arange(0, weights.size, _BLOCK), dtype=np.float64)
    order = rng.permutation(blocks)
    ends = np.cumsum(sums[order])
    marks = (rng.random() + np.arange(count)) * (ends[-1] / count)
    hit = np.minimum(np.searchsorted(ends, marks, side="right"), blocks - 1)
    chosen = []
    for place in np.unique(hit):
        block = int(order[place])
        here = marks[hit == place] - (ends[place] - sums[block])
        chosen.append(_inside(weights, block * _BLOCK, here, rng))
    return np.concatenate(chosen)


def _inside(
    weights: Floats, start: int, marks: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Find the items of one block under its marks; each mark gives another item."""
    block = weights[start : start + _BLOCK]
    order = rng.permutation(np.flatnonzero(block))
    ends = np.cumsum(block[order], dtype=np.float64)
    places = np.minimum(np.searchsorted(ends, marks, side="right"), order.size - 1)
    # Rounding may lay two marks on one item of the largest weight, or one beyond the end.
    for number in range(1, places.size):
        places[number] = max(places[number], places[number - 1] + 1)
    surplus = places[-1] - (order.size - 1)
    if surplus > 0:
        places = np.minimum(places, np.arange(order.size - places.size, order.size))
    return start + order[places].astype(np.int64)

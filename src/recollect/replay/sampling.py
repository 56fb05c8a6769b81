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


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Positions that were drawn, ascending, each once, and how likely each was to be drawn."""

    positions: NDArray[np.int64]
    probabilities: NDArray[np.float64]


NOTHING = Drawn(np.empty(0, np.int64), np.empty(0, np.float64))


def inclusion(weights: Floats, count: int) -> NDArray[np.float64]:
    """Give each item its probability p_i = min(1, c w_i), with c such that they sum to `count`.

    `weights` [n] are finite and >= 0, of any size. Items whose weight is large enough are certain
    (p = 1) and what they cannot take goes to the others in proportion. With no more than `count`
    weights above 0 all of those are certain.
    """
    found = np.array(weights, dtype=np.float64)
    if np.count_nonzero(found) <= count:
        return (found > 0).astype(np.float64)
    open_: NDArray[np.int64] | slice = slice(None)  # all, until some are certain
    left = count
    while left > 0:
        # Relative to the largest that is left: no sum overflows, none is lost beside another.
        shares = found[open_] / found[open_].max()
        shares *= left / shares.sum()
        certain = shares >= 1.0
        if not certain.any():
            found[open_] = shares
            return found
        if isinstance(open_, slice):
            open_ = np.arange(found.size)
        found[open_[certain]] = 1.0
        left -= int(np.count_nonzero(certain))
        open_ = open_[~certain]
    found[open_] = 0.0
    return found


def draw(weights: Floats, count: int, rng: np.random.Generator) -> Drawn:
    """Draw `count` different items (fewer if fewer have a weight), by probability ~ weight.

    Promises: item i is included with probability min(1, c w_i) exactly (see `inclusion`), and
    that probability is returned with it. Equal generators give equal draws.
    """
    if count <= 0 or not weights.size:
        return NOTHING
    chances = inclusion(weights, count)
    certain = np.flatnonzero(chances == 1.0)
    left = min(count, int(np.count_nonzero(chances))) - certain.size
    if left <= 0:
        return Drawn(certain, np.ones(certain.size))
    rest = np.where(chances < 1.0, chances, 0.0) if certain.size else chances
    chosen = systematic(rest, left, rng)
    positions = np.sort(np.concatenate((certain, chosen)))
    return Drawn(positions, chances[positions])


def systematic(weights: Floats, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw `count` items by Madow's systematic sampling, in a random order of the items.

    No weight may exceed sum / count. `count` marks at equal distances, from a random start, are
    laid over the weights put end to end; the item under a mark is drawn. Whatever the order, an
    item is hit with probability count w / sum.
    """
    order = rng.permutation(np.flatnonzero(weights))
    ends = np.cumsum(weights[order], dtype=np.float64)
    marks = (rng.random() + np.arange(count)) * (ends[-1] / count)
    places = np.searchsorted(ends, marks, side="right")
    # Rounding may lay two marks on one item of the largest weight, or one beyond the end.
    turn = np.arange(count)
    places = np.minimum(places, order.size - count + turn)
    places = np.maximum.accumulate(places - turn) + turn
    return np.asarray(order[places], dtype=np.int64)

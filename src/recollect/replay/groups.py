"""Many small draws at once: one in each group of items, as `sampling` does it for one group.

Items lie group by group in one array; those of group g are `starts[g]` up to `starts[g + 1]`
(the last group ends with the array). No group is empty.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.int64]


def spans(starts: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Write out spans of numbers one after the other; and where each begins in that.

    Spans [5, 8) and [2, 4) give 5 6 7 2 3, and 0 3.
    """
    places = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    return np.repeat(starts - places, sizes) + np.arange(total), places


def sizes_of(starts: Ints, size: int) -> Ints:
    """How many of `size` items each group has."""
    return np.concatenate((starts[1:], [size]))[: starts.size] - starts


def labels_of(starts: Ints, size: int) -> Ints:
    """Number of the group of each of `size` items."""
    return np.repeat(np.arange(starts.size), sizes_of(starts, size))


def inclusion_in_groups(weights: Floats, starts: Ints, counts: Ints) -> NDArray[np.float64]:
    """Give each item its probability when `counts[g]` items of group g are drawn: [n].

    In each group as in `sampling.inclusion`: p = min(1, c w), with c such that they sum to the
    count, or certainty for all items with a weight where there are no more.
    """
    found = np.zeros(weights.size)
    if not weights.size:
        return found
    label = labels_of(starts, weights.size)
    positive = np.add.reduceat(weights > 0, starts, dtype=np.int64)
    few = (positive <= counts)[label]
    found[few & (weights > 0)] = 1.0
    left = counts.astype(np.float64)
    at = np.flatnonzero(~few & (weights > 0) & (left > 0)[label])
    while at.size:
        group = label[at]
        first = _firsts(group)
        here = group[first]
        sizes = sizes_of(first, at.size)
        # Relative to the largest that is left: no sum overflows, none is lost beside another.
        shares = weights[at] / np.repeat(np.maximum.reduceat(weights[at], first), sizes)
        shares *= np.repeat(left[here] / np.add.reduceat(shares, first), sizes)
        certain = shares >= 1.0
        found[at] = np.where(certain, 1.0, shares)
        taken = np.bincount(group[certain], minlength=starts.size)
        left -= taken
        found[at[~certain & (left[group] <= 0)]] = 0.0
        # Groups from which none was taken are done; so are those that are full.
        at = at[~certain & ((taken > 0) & (left > 0))[group]]
    return found


def one_of_each(weights: Floats, sums: Floats, starts: Ints, rng: np.random.Generator) -> Ints:
    """Draw one item of each group by weight; `sums` [groups] of the weights are above 0."""
    sizes = sizes_of(starts, weights.size)
    ends = np.cumsum(weights / np.repeat(sums, sizes))  # each group is about 1 long
    low = np.where(starts > 0, ends[starts - 1], 0.0)
    high = ends[starts + sizes - 1]
    marks = low + rng.random(starts.size) * (high - low)
    # Rounding must not lay a mark beyond the last item that has a weight.
    marks = np.minimum(marks, np.nextafter(high, 0.0))
    return np.asarray(np.searchsorted(ends, marks, side="right"), dtype=np.int64)


def draw_in_groups(chances: Floats, starts: Ints, rng: np.random.Generator) -> Ints:
    """Draw from each group so that items are included with these probabilities; ascending.

    In each group they sum to a whole number. Systematic sampling, as in `sampling.systematic`,
    with one start of the marks for each group.
    """
    certain = np.flatnonzero(chances >= 1.0)
    order = np.flatnonzero((chances > 0.0) & (chances < 1.0))
    if not order.size:
        return certain
    label = labels_of(starts, chances.size)
    wanted = np.rint(np.bincount(label[order], chances[order], starts.size)).astype(np.int64)
    if wanted.max() > 1:  # a single mark falls anywhere alike, in whatever order
        order = rng.permutation(order)
        order = order[np.argsort(label[order], kind="stable")]
    ends = np.cumsum(chances[order], dtype=np.float64)
    group = label[order]
    first = _firsts(group)
    here, last = group[first], np.append(first[1:], order.size) - 1
    low = np.where(first > 0, ends[first - 1], 0.0)
    begins = rng.random(starts.size)[here]
    wanted = wanted[here]
    turn, _ = spans(np.zeros_like(wanted), wanted)
    of = np.repeat(np.arange(here.size), wanted)
    marks = low[of] + (begins[of] + turn) * ((ends[last] - low) / np.maximum(wanted, 1))[of]
    places = np.searchsorted(ends, marks, side="right")
    # Rounding may lay a mark into the next group, or two marks on one item.
    places = np.clip(places, first[of] + turn, last[of] - (wanted[of] - 1 - turn))
    every = np.arange(places.size)
    places = np.maximum.accumulate(places - every) + every
    return np.sort(np.concatenate((certain, order[places])))


def _firsts(group: Ints) -> Ints:
    """Where another group begins, given the groups of items that lie group by group."""
    return np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))

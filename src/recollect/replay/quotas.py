"""Quotas: no task and no domain takes more than its share of a draw."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.replay.sampling import NOTHING, Drawn, draw, inclusion

Floats: TypeAlias = NDArray[np.floating[Any]]
Labels: TypeAlias = NDArray[np.integer[Any]]


def fair_shares(totals: Floats, most: Floats, count: int) -> NDArray[np.float64]:
    """Divide `count` among groups in proportion to `totals`, none above its `most`: [g].

    What a full group cannot take goes to the others in proportion. Sums to `count`, or to the sum
    of `most` over groups with a total where that is less.
    """
    shares = np.zeros(totals.size)
    open_ = np.asarray(totals) > 0
    left = float(count)
    while left > 1e-9 and open_.any():
        scale = left / float(totals[open_].sum())
        wanted = np.where(open_, totals * scale, 0.0)
        full = open_ & (wanted >= most)
        if not full.any():
            shares[open_] = wanted[open_]
            break
        shares[full] = most[full]
        left -= float(most[full].sum())
        open_ &= ~full
    return shares


def draw_with_quota(
    weights: Floats, labels: Labels, most: int, count: int, rng: np.random.Generator
) -> Drawn:
    """Draw rows by weight, at most `most` of any label; probabilities are exact.

    In two stages: how many rows each label gives (its fair share, up or down to a whole number by
    systematic sampling), then that many of its rows. A row's probability is the mean over both
    numbers its label can get.
    """
    if count <= 0 or not weights.any():
        return NOTHING
    candidates = np.flatnonzero(weights)
    known, group = np.unique(labels[candidates], return_inverse=True)
    held = np.bincount(group, minlength=known.size)
    totals = np.bincount(group, weights[candidates], minlength=known.size).astype(np.float64)
    shares = fair_shares(totals, np.minimum(held, most).astype(np.float64), count)
    counts = _whole_numbers(shares, rng)
    positions, probabilities = [], []
    for place in np.flatnonzero(counts):
        rows = candidates[group == place]
        drawn = draw(weights[rows], int(counts[place]), rng)
        positions.append(rows[drawn.positions])
        probabilities.append(_mean_probability(weights[rows], drawn, float(shares[place])))
    order = np.argsort(joined := np.concatenate(positions), kind="stable")
    return Drawn(joined[order], np.concatenate(probabilities)[order])


def _whole_numbers(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Round each share up or down, with expectation equal to it and the sum kept (if whole)."""
    base = np.floor(shares + 1e-9).astype(np.int64)
    parts = np.clip(shares - base, 0.0, None)
    parts[parts < 1e-9] = 0.0
    extra = draw(parts, round(float(parts.sum())), rng)
    base[extra.positions] += 1
    return base


def _mean_probability(weights: Floats, drawn: Drawn, share: float) -> NDArray[np.float64]:
    """Inclusion probability of drawn rows over both whole numbers that a share can become."""
    low = int(np.floor(share + 1e-9))
    up = share - low
    found = np.zeros(drawn.positions.size)
    for count, chance in ((low, 1.0 - up), (low + 1, up)):
        if chance > 1e-9 and count:
            found += chance * inclusion(weights, count)[drawn.positions]
    return np.clip(found, np.finfo(np.float64).tiny, 1.0)

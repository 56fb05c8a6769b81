"""Quotas: no task and no domain takes more than its share of a draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.replay.sampling import NOTHING, Drawn, draw, inclusion

Floats: TypeAlias = NDArray[np.floating[Any]]
Labels: TypeAlias = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Quota:
    """At most `most` rows of any label; `labels` [n] are those of the rows."""

    labels: Labels
    most: int

    def of(self, rows: NDArray[np.int64]) -> Quota:
        """The same quota for some of the rows [positions]."""
        return Quota(self.labels[rows], self.most)

    def parts(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Divide rows [positions] by their label."""
        labels = self.labels[rows]
        order = np.argsort(labels, kind="stable")
        cuts = np.flatnonzero(np.diff(labels[order])) + 1
        return np.split(rows[order], cuts) if rows.size else []


def at_least_one(amount: float) -> int:
    """Take the whole part of an amount, but not nothing."""
    # 0.29 * 100 is a little less than 29 in floating point.
    return max(1, int(amount + 1e-9))


def fair_shares(totals: Floats, most: Floats, count: int) -> NDArray[np.float64]:
    """Divide `count` among groups in proportion to `totals`, none above its `most`: [g].

    What a full group cannot take goes to the others in proportion. Sums to `count`, or to the sum
    of `most` over groups with a total where that is less.
    """
    shares = np.zeros(totals.size)
    open_ = np.asarray(totals) > 0
    left = float(count)
    while left > 1e-9 and open_.any():
        wanted = np.where(open_, totals, 0.0)
        wanted /= wanted.max()  # so that no scale overflows
        wanted *= left / wanted.sum()
        full = open_ & (wanted >= most)
        if not full.any():
            shares[open_] = wanted[open_]
            break
        shares[full] = most[full]
        left -= float(most[full].sum())
        open_ &= ~full
    return shares


def draw_with_quotas(
    weights: Floats, quotas: Sequence[Quota], count: int, rng: np.random.Generator
) -> Drawn:
    """Draw rows by weight within all quotas; probabilities are exact.

    Each quota divides the labels of the one before (domains, then their tasks). In stages: how
    many rows each label gives (its fair share, up or down to a whole number by systematic
    sampling), then that many of its rows, by the quotas that are left.
    """
    if count <= 0 or not weights.any():
        return NOTHING
    if not quotas:
        return draw(weights, count, rng)
    inner = quotas[1:]
    parts, shares = _shares(weights, quotas, count)
    counts = whole_numbers(shares, rng)
    positions, probabilities = [], []
    for place in np.flatnonzero(counts):
        rows = parts[place]
        within = [quota.of(rows) for quota in inner]
        drawn = draw_with_quotas(weights[rows], within, int(counts[place]), rng)
        chances = _mean_chances(weights[rows], within, float(shares[place]))
        positions.append(rows[drawn.positions])
        probabilities.append(chances[drawn.positions])
    order = np.argsort(joined := np.concatenate(positions), kind="stable")
    return Drawn(joined[order], np.concatenate(probabilities)[order])


def _shares(
    weights: Floats, quotas: Sequence[Quota], count: int
) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
    """The rows that have a weight by their label in the first quota, and each label's share."""
    parts = quotas[0].parts(np.flatnonzero(weights))
    totals = np.array([weights[rows].sum(dtype=np.float64) for rows in parts])
    most = np.array([min(quotas[0].most, _room(rows, quotas[1:])) for rows in parts], np.float64)
    return parts, fair_shares(totals, most, count)


def _room(rows: NDArray[np.int64], quotas: Sequence[Quota]) -> int:
    """How many of the rows all quotas let through."""
    if not quotas:
        return int(rows.size)
    first, inner = quotas[0], quotas[1:]
    return sum(min(first.most, _room(part, inner)) for part in first.parts(rows))


def whole_numbers(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Round each share up or down, with expectation equal to it and the sum kept (if whole)."""
    base = np.floor(shares + 1e-9).astype(np.int64)
    parts = np.clip(shares - base, 0.0, None)
    parts[parts < 1e-9] = 0.0
    extra = draw(parts, round(float(parts.sum())), rng)
    base[extra.positions] += 1
    return base


def outcomes(share: float) -> list[tuple[int, float]]:
    """The whole numbers that a share can become, but for 0, each with its probability."""
    low = int(np.floor(share + 1e-9))
    up = share - low
    found = ((low, 1.0 - up), (low + 1, up))
    return [(count, likely) for count, likely in found if likely > 1e-9 and count]


def _mean_chances(weights: Floats, quotas: Sequence[Quota], share: float) -> NDArray[np.float64]:
    """Inclusion probability of rows [n] over both whole numbers that a share can become."""
    found = np.zeros(weights.size)
    for count, likely in outcomes(share):
        found += likely * chances(weights, quotas, count)
    return np.clip(found, np.finfo(np.float64).tiny, 1.0)


def chances(weights: Floats, quotas: Sequence[Quota], count: int) -> NDArray[np.float64]:
    """Inclusion probability of rows [n] when `count` of them are drawn."""
    if not quotas:
        return inclusion(weights, count)
    found = np.zeros(weights.size)
    for rows, share in zip(*_shares(weights, quotas, count), strict=True):
        within = [quota.of(rows) for quota in quotas[1:]]
        found[rows] = _mean_chances(weights[rows], within, float(share))
    return found

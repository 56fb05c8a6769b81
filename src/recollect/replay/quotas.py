"""Quotas: what each task or domain gives to a draw where none may take more than its share."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.replay.sampling import draw

Floats: TypeAlias = NDArray[np.floating[Any]]


def whole_part(amount: float) -> int:
    """Take the whole part of a share of something."""
    # 0.29 * 100 is a little less than 29 in floating point.
    return int(amount + 1e-9)


def at_least_one(amount: float) -> int:
    """Take the whole part of a share of something, but not nothing."""
    return max(1, whole_part(amount))


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

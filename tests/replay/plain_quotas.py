"""The probabilities of a draw within quotas, from every row at hand: slow, and plain to read.

Each quota divides the labels of the one before (domains, then their tasks). In stages: how many
rows each label gives (its fair share, up or down to a whole number), then that many of its rows, by
the quotas that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.replay.quotas import fair_shares, outcomes
from recollect.replay.sampling import inclusion

Floats: TypeAlias = NDArray[np.floating[Any]]
Labels: TypeAlias = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Quota:
    """At most `most` rows of any label; `labels` [n] are those of the rows.

    `alike`: every label gives the same, as far as it can.
    """

    labels: Labels
    most: int
    alike: bool = False

    def of(self, rows: NDArray[np.int64]) -> Quota:
        """The same quota for some of the rows [positions]."""
        return Quota(self.labels[rows], self.most, self.alike)

    def parts(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Divide rows [positions] by their label."""
        labels = self.labels[rows]
        order = np.argsort(labels, kind="stable")
        cuts = np.flatnonzero(np.diff(labels[order])) + 1
        return np.split(rows[order], cuts) if rows.size else []


def chances(weights: Floats, quotas: Sequence[Quota], count: int) -> NDArray[np.float64]:
    """Inclusion probability of rows [n] when `count` of them are drawn."""
    if not quotas:
        return inclusion(weights, count)
    found = np.zeros(weights.size)
    for rows, share in zip(*_shares(weights, quotas, count), strict=True):
        within = [quota.of(rows) for quota in quotas[1:]]
        found[rows] = _mean_chances(weights[rows], within, float(share))
    return found


def _shares(
    weights: Floats, quotas: Sequence[Quota], count: int
) -> tuple[list[NDArray[np.int64]], NDArray[np.float64]]:
    """The rows that have a weight by their label in the first quota, and each label's share."""
    parts = quotas[0].parts(np.flatnonzero(weights))
    totals = np.array([weights[rows].sum(dtype=np.float64) for rows in parts])
    if quotas[0].alike:
        totals = np.ones(len(parts))
    most = np.array([min(quotas[0].most, _room(rows, quotas[1:])) for rows in parts], np.float64)
    return parts, fair_shares(totals, most, count)


def _room(rows: NDArray[np.int64], quotas: Sequence[Quota]) -> int:
    """How many of the rows all quotas let through."""
    if not quotas:
        return int(rows.size)
    first, inner = quotas[0], quotas[1:]
    return sum(min(first.most, _room(part, inner)) for part in first.parts(rows))


def _mean_chances(weights: Floats, quotas: Sequence[Quota], share: float) -> NDArray[np.float64]:
    """Inclusion probability of rows [n] over both whole numbers that a share can become."""
    found = np.zeros(weights.size)
    for count, likely in outcomes(share):
        found += likely * chances(weights, quotas, count)
    return np.clip(found, np.finfo(np.float64).tiny, 1.0)

"""Draws with a quota for each task, and perhaps for each domain, from the weights of the tasks.

From sums by task: only the rows of the tasks that are drawn are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.replay.groups import Floats, Ints, draw_in_groups, inclusion_in_groups, sizes_of
from recollect.replay.quotas import fair_shares, outcomes, whole_numbers
from recollect.replay.sampling import NOTHING, Drawn

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """Tasks that have a weight: their numbers, weights, most rows each may give, and domains.

    `alike`: every domain gives the same, as far as it can, whatever its tasks weigh.
    """

    numbers: Ints
    totals: NDArray[np.float64]
    most: NDArray[np.float64]
    domains: Ints
    alike: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """One of the two ways each domain can go: how many rows it gives, and how likely [domains].

    `shares` [tasks] are what each task then gives on average. What it gives is a whole number
    again, its share rounded up or down.
    """

    counts: Ints
    likely: NDArray[np.float64]
    shares: NDArray[np.float64]


class _Inside:
    """Inclusion probabilities of rows given how many rows each task gives; each found out once."""

    def __init__(self, weights: Floats, starts: Ints) -> None:
        self._weights, self._starts = weights, starts
        self._known: dict[bytes, NDArray[np.float64]] = {}
        self.sizes = sizes_of(starts, weights.size)

    def chances(self, counts: Ints) -> NDArray[np.float64]:
        """Probabilities [rows] for these numbers [tasks]."""
        name = counts.tobytes()
        if name not in self._known:
            self._known[name] = inclusion_in_groups(self._weights, self._starts, counts)
        return self._known[name]


# The rows with a weight of some tasks, task by task; where each task's begin; their weights.
Fetch = Callable[[Ints], tuple[Ints, Ints, Floats]]


def draw_by_task(
    shelf: Shelf, most_domain: int | None, count: int, fetch: Fetch, rng: np.random.Generator
) -> Drawn:
    """Draw up to `count` rows within the quotas; the probabilities are exact.

    In stages: how many rows each domain gives, how many of those each of its tasks does (fair
    shares, up or down to a whole number by systematic sampling), then the rows of the task.
    """
    if count <= 0 or not shelf.numbers.size:
        return NOTHING
    shares = _domain_shares(shelf, most_domain, count)
    ways = _ways(shelf, shares)
    counts = whole_numbers(shares, rng)
    given = np.zeros(shelf.numbers.size, np.int64)
    for domain in np.flatnonzero(counts):
        mine = np.flatnonzero(shelf.domains == domain)
        (way,) = (each for each in ways if each.counts[domain] == counts[domain])
        given[mine] = whole_numbers(way.shares[mine], rng)
    drawn = np.flatnonzero(given)
    rows, starts, weights = fetch(shelf.numbers[drawn])
    inside = _Inside(weights, starts)
    hit = draw_in_groups(inside.chances(given[drawn]), starts, rng)
    told = _chances(shelf, ways, drawn, inside)[hit]
    order = np.argsort(rows[hit], kind="stable")
    return Drawn(rows[hit][order], told[order])


def draw_tasks(
    weights: Floats,
    domains: NDArray[np.integer[Any]],
    most_domain: int,
    count: int,
    rng: np.random.Generator,
) -> Drawn:
    """Draw up to `count` tasks by weight, at most so many of a domain: each gives itself, once."""
    filled = np.flatnonzero(weights)
    totals = np.asarray(weights[filled], dtype=np.float64)
    once, labels = np.ones(filled.size), domains[filled].astype(np.int64)
    shelf = Shelf(filled, totals, once, labels)
    return draw_by_task(shelf, most_domain, count, _themselves, rng)


def _themselves(numbers: Ints) -> tuple[Ints, Ints, Floats]:
    return numbers, np.arange(numbers.size), np.ones(numbers.size)


def chances_by_task(
    shelf: Shelf, most_domain: int | None, count: int, fetch: Fetch
) -> NDArray[np.float64]:
    """Inclusion probability of every row with a weight, in no particular order."""
    if count <= 0 or not shelf.numbers.size:
        return np.zeros(0)
    _, starts, weights = fetch(shelf.numbers)
    ways = _ways(shelf, _domain_shares(shelf, most_domain, count))
    return _chances(shelf, ways, np.arange(shelf.numbers.size), _Inside(weights, starts))


def _domain_shares(shelf: Shelf, most_domain: int | None, count: int) -> NDArray[np.float64]:
    """How many rows each domain gives on average."""
    totals = np.bincount(shelf.domains, shelf.totals).astype(np.float64)
    if shelf.alike:
        totals = np.sign(totals)
    room = np.bincount(shelf.domains, shelf.most).astype(np.float64)
    most = room if most_domain is None else np.minimum(room, most_domain)
    return fair_shares(totals, most, count)


def _ways(shelf: Shelf, shares: NDArray[np.float64]) -> list[Way]:
    """The two whole numbers that each domain's share can become, side by side for all domains."""
    tasks, domains = shelf.numbers.size, shares.size
    ways = [Way(np.zeros(domains, np.int64), np.zeros(domains), np.zeros(tasks)) for _ in range(2)]
    for domain in np.flatnonzero(shares):
        mine = np.flatnonzero(shelf.domains == domain)
        for way, (count, likely) in zip(ways, outcomes(float(shares[domain])), strict=False):
            way.counts[domain], way.likely[domain] = count, likely
            way.shares[mine] = fair_shares(shelf.totals[mine], shelf.most[mine], count)
    return ways


def _chances(shelf: Shelf, ways: list[Way], drawn: Ints, inside: _Inside) -> NDArray[np.float64]:
    """Inclusion probability of the rows of tasks [drawn], over all the ways a draw can go."""
    found = np.zeros(int(inside.sizes.sum()))
    for way in ways:
        shares, likely = way.shares[drawn], way.likely[shelf.domains[drawn]]
        low = np.floor(shares + 1e-9).astype(np.int64)
        up = shares - low
        for counts, part in ((low, 1.0 - up), (low + 1, up)):
            chance = np.where((part > 1e-9) & (counts > 0), likely * part, 0.0)
            if chance.any():
                found += np.repeat(chance, inside.sizes) * inside.chances(counts)
    return np.clip(found, _TINY, 1.0)

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.replay.groups import Floats, Ints
from recollect.replay.quotas import fair_shares
from recollect.replay.task_quotas import Shelf, draw_by_task, draw_tasks

from .plain_quotas import Quota, chances


def shares(totals: list[float], most: list[float], count: int) -> list[float]:
    return list(fair_shares(np.array(totals), np.array(most), count))


def test_shares_by_hand() -> None:
    assert shares([1, 1, 2], [9, 9, 9], 4) == pytest.approx([1, 1, 2])
    # The last may have 1 only; the others divide what it leaves.
    assert shares([1, 1, 2], [9, 9, 1], 4) == pytest.approx([1.5, 1.5, 1])
    # Then the first is full as well, in a second round.
    assert shares([2, 1, 4], [2, 9, 1], 5) == pytest.approx([2, 2, 1])
    assert shares([1, 0, 1], [1, 5, 1], 4) == pytest.approx([1, 0, 1])
    assert shares([1e300, 1], [2, 2], 3) == pytest.approx([2, 1])
    assert shares([], [], 3) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 9)), max_size=12), st.integers(0, 60))
def test_shares_sum_up_and_never_exceed(groups: list[tuple[float, int]], count: int) -> None:
    totals = [total for total, _ in groups]
    most = [float(limit) for _, limit in groups]
    found = shares(totals, most, count)
    assert all(0 <= share <= limit + 1e-9 for share, limit in zip(found, most, strict=True))
    possible = sum(limit for total, limit in zip(totals, most, strict=True) if total > 0)
    assert sum(found) == pytest.approx(min(count, possible), abs=1e-6)


CASES = {
    "nothing binds": ([1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5], 1, 3),
    "one label holds nearly all": ([9, 9, 9, 9, 1, 1], [0, 0, 0, 0, 1, 2], 2, 4),
    "shares that are no whole numbers": ([1, 1, 1, 3, 3, 2], [0, 0, 0, 1, 1, 2], 2, 3),
    "too few": ([1, 1, 1, 1], [0, 0, 0, 1], 1, 4),
    "certain rows inside a label": ([100, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], 2, 3),
    "rows without weight": ([0, 1, 2, 0, 1, 5], [0, 0, 0, 1, 1, 1], 1, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_probabilities_are_exact_and_quotas_hold(name: str) -> None:
    given_weights, given_labels, most, count = CASES[name]
    weights, labels = np.array(given_weights, float), np.array(given_labels)
    rng, trials = np.random.default_rng(11), 1200
    hits, told = np.zeros(weights.size), np.full(weights.size, np.nan)
    possible = sum(min(most, n) for n in Counter(labels[weights > 0].tolist()).values())
    for _ in range(trials):
        drawn = draw_tasks(weights, labels, most, count, rng)
        assert drawn.positions.size == min(count, possible)
        assert len(set(drawn.positions.tolist())) == drawn.positions.size
        assert max(Counter(labels[drawn.positions].tolist()).values()) <= most
        hits[drawn.positions] += 1
        # A row's probability is the same whenever it is drawn.
        known = told[drawn.positions]
        fresh = np.isnan(known)
        np.testing.assert_allclose(known[~fresh], drawn.probabilities[~fresh], rtol=1e-9)
        told[drawn.positions] = drawn.probabilities
    assert (hits[weights == 0] == 0).all()
    seen = hits > 0
    assert told[seen].sum() == pytest.approx(min(count, possible), abs=1e-6)
    spread = np.sqrt(told * (1 - told) / trials)
    assert (np.abs(hits / trials - told)[seen] <= 5 * spread[seen] + 1e-9).all()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1e-9, 0.5, 1.0, 7.0, 1e9]), st.integers(0, 4)), max_size=30
    ),
    st.integers(1, 5),
    st.integers(0, 20),
    st.integers(0, 100),
)
def test_any_quota(rows: list[tuple[float, int]], most: int, count: int, seed: int) -> None:
    weights = np.array([weight for weight, _ in rows])
    labels = np.array([label for _, label in rows], dtype=np.int64)
    drawn = draw_tasks(weights, labels, most, count, np.random.default_rng(seed))
    held = Counter(labels[weights > 0].tolist())
    assert drawn.positions.size == min(count, sum(min(most, n) for n in held.values()))
    assert all(n <= most for n in Counter(labels[drawn.positions].tolist()).values())
    assert (np.diff(drawn.positions) > 0).all()
    assert (weights[drawn.positions] > 0).all()
    assert ((drawn.probabilities > 0) & (drawn.probabilities <= 1)).all()
    plain = chances(weights, [Quota(labels, most)], count)[drawn.positions]
    np.testing.assert_allclose(drawn.probabilities, plain, rtol=1e-7)


def test_quotas_within_quotas() -> None:
    """At most 3 of a domain and 1 of a task; domain 0 has most of the weight, in two tasks."""
    weights = np.array([9.0, 9, 9, 9, 1, 1, 1, 2, 0])
    domains = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    tasks = np.array([0, 0, 1, 1, 2, 2, 3, 4, 5])
    shelf = Shelf(
        np.arange(5), np.array([18.0, 18, 2, 1, 2]), np.ones(5), np.array([0, 0, 1, 1, 1])
    )

    def fetch(numbers: Ints) -> tuple[Ints, Ints, Floats]:
        rows = [np.flatnonzero((tasks == number) & (weights > 0)) for number in numbers]
        starts = np.cumsum([0, *(each.size for each in rows[:-1])])
        return np.concatenate(rows), starts, weights[np.concatenate(rows)]

    rng, trials = np.random.default_rng(12), 1200
    hits, told = np.zeros(9), np.zeros(9)
    for _ in range(trials):
        drawn = draw_by_task(shelf, 3, 4, fetch, rng)
        assert drawn.positions.size == 4
        assert max(Counter(domains[drawn.positions].tolist()).values()) <= 3
        assert max(Counter(tasks[drawn.positions].tolist()).values()) == 1
        hits[drawn.positions] += 1
        told[drawn.positions] = drawn.probabilities
    # Both tasks of domain 0 for certain, each by one of its two equal rows.
    assert told[:4] == pytest.approx([0.5] * 4)
    assert told.sum() == pytest.approx(4)
    spread = np.sqrt(told * (1 - told) / trials)
    assert (np.abs(hits / trials - told) <= 5 * spread + 1e-9).all()
    few = draw_by_task(shelf, 3, 20, fetch, rng)
    assert few.positions.size == 5, "two tasks and three tasks"

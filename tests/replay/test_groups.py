from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.replay.groups import (
    draw_in_groups,
    inclusion_in_groups,
    one_of_each,
    spans,
)
from recollect.replay.sampling import inclusion

from .test_sampling import check_frequencies, sizes


def test_spans_are_written_out() -> None:
    written, places = spans(np.array([5, 2, 9]), np.array([3, 2, 0]))
    assert written.tolist() == [5, 6, 7, 2, 3]
    assert places.tolist() == [0, 3, 5]


def test_by_hand() -> None:
    weights = np.array([8.0, 3, 1, 1, 5, 0, 1, 1, 2, 1e300, 1, 3])
    found = inclusion_in_groups(weights, np.array([0, 4, 6, 9]), np.array([3, 1, 2, 2]))
    expected = [1, 1, 0.5, 0.5, 1, 0, 0.5, 0.5, 1, 1, 0.25, 0.75]
    assert found == pytest.approx(expected)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.lists(sizes, min_size=1, max_size=9), st.integers(0, 9)), max_size=6),
    st.integers(0, 1000),
)
def test_each_group_is_drawn_as_if_it_were_alone(
    groups: list[tuple[list[float], int]], seed: int
) -> None:
    weights = np.array([weight for items, _ in groups for weight in items], np.float64)
    lengths = [len(items) for items, _ in groups]
    starts = np.cumsum([0, *lengths], dtype=np.int64)[:-1]
    counts = np.array([count for _, count in groups], np.int64)
    told = inclusion_in_groups(weights, starts, counts)
    drawn = draw_in_groups(told, starts, np.random.default_rng(seed))
    assert (np.diff(drawn) > 0).all()
    for (items, count), start in zip(groups, starts.tolist(), strict=True):
        here = told[start : start + len(items)]
        np.testing.assert_allclose(here, inclusion(np.array(items), count), rtol=1e-9)
        inside = drawn[(drawn >= start) & (drawn < start + len(items))]
        assert inside.size == min(count, sum(item > 0 for item in items))
        assert (weights[inside] > 0).all()


def test_one_of_each_group_by_weight() -> None:
    weights = np.array([0.0, 1, 3, 0, 0, 1e-300, 0, 2e300, 1e300, 0])
    sums, starts = np.array([4.0, 1e-300, 3e300]), np.array([0, 4, 7])
    rng, trials, found = np.random.default_rng(3), 2500, np.zeros(10)
    for _ in range(trials):
        drawn = one_of_each(weights, sums, starts, rng)
        assert drawn.shape == (3,)
        found[drawn] += 1
    check_frequencies(found / trials, weights / np.repeat(sums, [4, 3, 3]), trials)
    rng_at_the_end: Any = Ends()
    assert one_of_each(weights, sums, starts, rng_at_the_end).tolist() == [2, 5, 8]


class Ends:
    """A generator whose marks rounding has laid at the very end."""

    def random(self, count: int) -> np.ndarray:
        return np.ones(count)


def test_items_come_as_often_as_is_told() -> None:
    rng, trials = np.random.default_rng(9), 2500
    weights = rng.random(12) + 0.1
    weights[1], weights[6] = 9.0, 0.0
    starts, counts = np.array([0, 4, 7]), np.array([2, 1, 3])
    told = inclusion_in_groups(weights, starts, counts)
    found = np.zeros(12)
    for _ in range(trials):
        found[draw_in_groups(told, starts, rng)] += 1
    check_frequencies(found / trials, told, trials)

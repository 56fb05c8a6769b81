"""Draws without replacement: every item is included with exactly the probability that is told."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from recollect.proof.drawing import Scripted
from recollect.replay.sampling import draw, inclusion, systematic

Floats = NDArray[np.float64]


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def frequencies(weights: Floats, count: int, trials: int) -> Floats:
    """How often each item was drawn; every draw is checked on the way."""
    found, told = np.zeros(weights.size), inclusion(weights, count)
    rng = generator(7)
    for _ in range(trials):
        drawn = draw(weights, count, rng)
        np.testing.assert_array_equal(drawn.probabilities, told[drawn.positions])
        assert np.all(np.diff(drawn.positions) > 0)
        found[drawn.positions] += 1
    return found / trials


def check_frequencies(found: Floats, told: Floats, trials: int) -> None:
    """Five standard deviations for each item, and a chi-square of all of them together."""
    spread = np.sqrt(told * (1 - told) / trials)
    certain = spread == 0
    np.testing.assert_array_equal(found[certain], told[certain])
    rare = ~certain & (told * trials < 5)  # a single hit would be many standard deviations
    few = told[rare].sum() / trials
    assert abs((found - told)[rare].sum()) <= 5 * np.sqrt(few)
    likely = ~certain & ~rare
    z = (found - told)[likely] / spread[likely]
    assert np.abs(z).max(initial=0.0) < 5
    if z.size:  # Systematic draws repel each other, which only makes this smaller.
        assert np.square(z).sum() < z.size + 5 * np.sqrt(2 * z.size)


@pytest.mark.parametrize(
    ("weights", "count"),
    [
        ([1, 1, 1, 1], 2),
        ([1, 2, 3, 4], 1),
        ([1, 2, 3, 4], 2),
        ([1, 2, 3, 4], 3),  # 4 is nearly certain
        ([0, 5, 1, 0, 1, 1], 2),  # 5 is certain
        ([100, 50, 1, 1, 1], 3),  # two are
        ([1e300, 1, 2, 3], 2),
        ([1e-300, 2e-300, 3e-300, 1e300], 3),
    ],
)
def test_frequencies_are_the_told_probabilities(weights: list[float], count: int) -> None:
    values = np.array(weights, dtype=np.float64)
    told = inclusion(values, count)
    assert told.sum() == pytest.approx(count)
    check_frequencies(frequencies(values, count, 2500), told, 2500)


def test_by_hand() -> None:
    assert inclusion(np.array([1.0, 2.0, 3.0, 4.0]), 1) == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert inclusion(np.array([5.0, 1.0, 1.0, 1.0]), 2) == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3])
    # 8 is certain at once; only then is 3 of the 4 that are left more than its share.
    assert inclusion(np.array([8.0, 3.0, 1.0, 1.0]), 3) == pytest.approx([1, 1, 0.5, 0.5])
    assert inclusion(np.array([1e300, 1.0, 3.0]), 2) == pytest.approx([1, 0.25, 0.75])
    assert inclusion(np.array([1.0, 1.0, 1e-20]), 2) == pytest.approx([1, 1, 0], abs=1e-15)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_exact_in_every_order(order: tuple[int, ...]) -> None:
    """Over all starts of the marks, whatever the order: no luck in it, only rounding."""
    found, weights, starts = np.zeros(4), np.array([0.1, 0.2, 0.3, 0.4]), 400
    for start in range(starts):
        rng: Any = Scripted(order, (start + 0.5) / starts)
        found[systematic(weights, 2, rng)] += 1
    np.testing.assert_allclose(found / starts, 2 * weights, atol=1.01 / starts)


def test_many_items() -> None:
    rng = generator(1)
    weights = rng.random(3000) ** 3
    weights[rng.random(3000) < 0.3] = 0.0
    trials, count = 800, 200
    told = inclusion(weights, count)
    assert told.sum() == pytest.approx(count)
    found = frequencies(weights, count, trials)
    assert found[weights == 0].sum() == 0
    check_frequencies(found, told, trials)


def test_a_mark_at_the_very_end_hits_the_last_item_with_a_weight() -> None:
    weights = np.zeros(3000)
    weights[[5, 700]] = 1.0
    rng: Any = Scripted((0, 1), 1.0)  # as rounding may make it
    assert systematic(weights, 1, rng).tolist() == [700]


def test_fewer_candidates_than_wanted() -> None:
    drawn = draw(np.array([0.0, 2.0, 0.0, 1e-12]), 3, generator(0))
    assert drawn.positions.tolist() == [1, 3]
    assert drawn.probabilities.tolist() == [1.0, 1.0]
    for weights, count in (([], 3), ([0.0, 0.0], 3), ([1.0], 0), ([1.0], -1)):
        assert draw(np.array(weights), count, generator(0)).positions.size == 0


def test_equal_streams_give_equal_draws() -> None:
    weights = generator(3).random(2500)
    one, two, three = (draw(weights, 60, generator(seed)) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.positions, two.positions)
    assert one.positions.tolist() != three.positions.tolist()


def test_weights_are_not_written_to() -> None:
    weights = np.array([1.0, 9.0, 1.0])
    weights.flags.writeable = False
    assert draw(weights, 2, generator(0)).positions.size == 2
    assert weights.tolist() == [1.0, 9.0, 1.0]


def test_float32_is_no_less_exact() -> None:
    weights = generator(5).random(50).astype(np.float32)
    assert inclusion(weights, 7).sum() == pytest.approx(7, abs=1e-12)
    tiny = np.full(5, 1e-40, np.float32)
    assert inclusion(tiny, 2) == pytest.approx([0.4] * 5)


sizes = st.one_of(
    st.just(0.0),
    st.floats(0, 1e308, allow_subnormal=True),
    st.sampled_from([1.0, 1e-300, 1e300, 5e-324, 0.1, 1 / 3]),
    st.integers(-300, 300).map(lambda power: 10.0**power),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(sizes, max_size=40), st.integers(0, 45), st.integers(0, 1000))
def test_any_weights(weights: list[float], count: int, seed: int) -> None:
    values = np.array(weights, dtype=np.float64)
    drawn = draw(values, count, generator(seed))
    positive = int(np.count_nonzero(values))
    assert drawn.positions.size == min(count, positive)
    assert len(set(drawn.positions.tolist())) == drawn.positions.size
    assert (values[drawn.positions] > 0).all()
    assert ((drawn.probabilities > 0) & (drawn.probabilities <= 1)).all()
    if count:
        told = inclusion(values, count)
        assert told.sum() == pytest.approx(min(count, positive))
        # In proportion, but for the certain ones; and no lighter item is likelier.
        order = np.argsort(values, kind="stable")
        assert (np.diff(told[order]) >= -1e-12).all()
        rest = (told < 1) & (told > 1e-12)
        ratios = told[rest] / (values[rest] / values[rest].max(initial=5e-324))
        np.testing.assert_allclose(ratios, ratios.max(initial=0), rtol=1e-9)

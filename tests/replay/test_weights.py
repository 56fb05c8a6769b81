from __future__ import annotations

import itertools

import numpy as np
import pytest

from recollect.replay.eligibility import Now
from recollect.replay.pool import Pool
from recollect.replay.sampling import draw, inclusion
from recollect.replay.weights import Weighing, priority_weights, row_weights

from .pools import RUN, TASKS, Plant, book_of, columns, planted


def weigh(plants: list[Plant], weighing: Weighing, version: int = 8) -> list[float]:
    with planted(*plants) as store:
        pool = Pool(store)
        tasks = columns(pool, book_of((TASKS[0], 4, 8), (TASKS[1], 5, 8)))
        everyone = np.ones(len(pool), np.bool_)
        found = row_weights(pool, tasks, weighing, Now(RUN, 8, version), everyone)
        for place in range(len(pool)):  # rows that are not allowed weigh nothing, others the same
            some = everyone.copy()
            some[place] = False
            partly = row_weights(pool, tasks, weighing, Now(RUN, 8, version), some)
            assert partly.tolist() == np.where(some, found, 0.0).tolist()
        return found.tolist()


def test_priorities() -> None:
    plants = [Plant(advantage=-2.0), Plant(advantage=0.0), Plant(advantage=0.5), Plant()]
    assert weigh(plants, Weighing("equal")) == [1, 1, 1, 1]
    assert weigh(plants, Weighing("advantage")) == [2, 0, 0.5, 0]
    plants = [Plant(advantage=-2.0, priority=7.0), Plant(priority=0.25), Plant()]
    assert weigh(plants, Weighing("stored")) == [7, 0.25, 0]
    plants = [Plant(reward=0.5), Plant(reward=-3.0), Plant(reward=2.0)]
    assert weigh(plants, Weighing("reward")) == [0.5, 0, 2]
    plants = [Plant(logprob=-1.0), Plant(logprob=0.0), Plant(version=None)]
    assert weigh(plants, Weighing("likelihood")) == pytest.approx([np.exp(-1), 1, 0])


def test_alpha() -> None:
    plants = [Plant(advantage=-4.0), Plant(advantage=0.0), Plant(advantage=1.0), Plant()]
    assert weigh(plants, Weighing("advantage", 0.5)) == pytest.approx([2, 0, 1, 0])
    # A row without any advantage does not come in through 0^0, nor one that has none.
    assert weigh(plants, Weighing("advantage", 0.0)) == [1, 0, 1, 0]


def test_freshness() -> None:
    plants = [Plant(version=8), Plant(version=4), Plant(version=0), Plant(version=None)]
    found = weigh(plants, Weighing("equal", half_life=4.0))
    assert found == pytest.approx([1, 0.5, 0.25, 1])


def test_buckets_and_tasks_not_tried_yet() -> None:
    plants = [Plant(TASKS[0]), Plant(TASKS[1]), Plant(TASKS[2])]
    weighing = Weighing("equal", buckets="gaussian", center=0.5, sigma=0.125)
    assert weigh(plants, weighing) == pytest.approx([1, np.exp(-0.5), 1])


def test_everything_multiplies() -> None:
    plants = [Plant(TASKS[1], version=4, advantage=-9.0)]
    weighing = Weighing("advantage", 0.5, 4.0, "gaussian", 0.5, 0.125)
    assert weigh(plants, weighing) == pytest.approx([3 * 0.5 * np.exp(-0.5)])


# -- priority weights ---------------------------------------------------------------------


def test_equal_chances_weigh_one() -> None:
    for beta in (0.0, 0.4, 1.0):
        assert priority_weights(np.full(3, 0.3), 10, beta) == pytest.approx([1, 1, 1])
    assert priority_weights(np.empty(0), 10, 1.0).size == 0


def test_beta_by_hand() -> None:
    chances = np.array([1.0, 0.25, 0.5])
    assert priority_weights(chances, 12, 0.0) == pytest.approx([1, 1, 1])
    assert priority_weights(chances, 12, 1.0) == pytest.approx([0.25, 1, 0.5])
    assert priority_weights(chances, 12, 0.5) == pytest.approx([0.5, 1, 0.5**0.5])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_with_beta_one_the_weighted_sum_is_unbiased(count: int) -> None:
    """Up to the scale of a draw, which is the largest weight in it: exact, over all starts."""
    weights = np.array([1.0, 2.0, 0.5, 4.0, 1.5])
    values = np.array([3.0, -1.0, 10.0, 0.5, -7.0])
    chances = inclusion(weights, count)
    rng, total, trials = np.random.default_rng(3), 0.0, 3000
    squares = 0.0
    for _ in range(trials):
        drawn = draw(weights, count, rng)
        found = priority_weights(drawn.probabilities, weights.size, 1.0)
        # The weights are those of Horvitz and Thompson over their largest.
        scale = (1 / drawn.probabilities).max()
        assert found * scale == pytest.approx(1 / drawn.probabilities)
        estimate = float((found * scale * values[drawn.positions]).sum())
        total, squares = total + estimate, squares + estimate**2
    mean = total / trials
    error = np.sqrt((squares / trials - mean**2) / trials)
    assert abs(mean - values.sum()) < 5 * error + 1e-9
    assert chances.sum() == pytest.approx(count)


def test_order_does_not_matter() -> None:
    chances = np.array([0.9, 0.1, 0.4])
    expected = dict(zip(chances, priority_weights(chances, 9, 0.7), strict=True))
    for order in itertools.permutations(range(3)):
        there = chances[list(order)]
        assert priority_weights(there, 9, 0.7) == pytest.approx([expected[c] for c in there])

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from recollect.replay.choice import Choice, Chooser, Likelihood
from recollect.replay.eviction import beyond_task
from recollect.replay.pool import Pool
from recollect.trajectory import Trajectory

from .pools import Plant, planted

NAN_LAST = [Plant(entropy=e) for e in (0.5, None, 0.125, 0.75, 0.125)]


def nobody(rows: Sequence[Trajectory]) -> list[float]:
    raise AssertionError("the policy was asked")


def choose(
    plants: list[Plant],
    choice: Choice,
    count: int,
    rows: list[int] | None = None,
    likelihood: Likelihood = nobody,
    candidates: int = 8,
) -> list[int]:
    with planted(*plants) as store:
        pool = Pool(store)
        at = np.array(range(len(plants)) if rows is None else rows)
        chooser = Chooser(choice, candidates, likelihood)
        drawn = chooser.choose(pool, at, np.ones(at.size), count, np.random.default_rng(0))
        assert drawn.probabilities.tolist() == [1.0] * drawn.positions.size
        return drawn.positions.tolist()


def test_entropies_with_missing_ones_last() -> None:
    # Of two equal ones the newer is taken.
    assert choose(NAN_LAST, "lowest_entropy", 1) == [4]
    assert choose(NAN_LAST, "lowest_entropy", 3) == [0, 2, 4]
    assert choose(NAN_LAST, "lowest_entropy", 4) == [0, 2, 3, 4]
    assert choose(NAN_LAST, "highest_entropy", 1) == [3]
    assert choose(NAN_LAST, "highest_entropy", 2) == [0, 3]
    assert choose(NAN_LAST, "highest_entropy", 4) == [0, 2, 3, 4]
    for choice in ("lowest_entropy", "highest_entropy"):
        assert choose(NAN_LAST, choice, 9) == [0, 1, 2, 3, 4]
        assert choose(NAN_LAST, choice, 1, rows=[1]) == [1], "better than none"


def test_newest_and_only_among_the_rows_given() -> None:
    assert choose(NAN_LAST, "newest", 2) == [3, 4]
    assert choose(NAN_LAST, "newest", 2, rows=[0, 2, 3]) == [2, 3]


def test_likeliest_asks_the_policy_once_about_the_newest() -> None:
    asked: list[list[str]] = []

    def likelihood(rows: Sequence[Trajectory]) -> list[float]:
        asked.append([row.id for row in rows])
        return [-0.25 if row.id == "row-2" else -1.0 for row in rows]

    assert choose(NAN_LAST, "likeliest", 1, likelihood=likelihood, candidates=3) == [2]
    assert choose(NAN_LAST, "likeliest", 2, likelihood=likelihood, candidates=3) == [2, 4]
    assert asked == [["row-2", "row-3", "row-4"]] * 2


def test_random_goes_by_the_weights() -> None:
    with planted(*NAN_LAST) as store:
        pool, rng = Pool(store), np.random.default_rng(5)
        rows, weights = np.array([0, 2, 3, 4]), np.array([1.0, 0.0, 2.0, 5.0])
        hits = np.zeros(5)
        for _ in range(2000):
            drawn = Chooser("random", 8, nobody).choose(pool, rows, weights, 1, rng)
            (position,) = drawn.positions
            hits[position] += 1
            assert drawn.probabilities == pytest.approx(weights[rows == position] / 8)
        assert hits / 2000 == pytest.approx([1 / 8, 0, 0, 2 / 8, 5 / 8], abs=0.06)


@pytest.mark.parametrize(
    ("choice", "leave"),
    [
        ("lowest_entropy", [1, 3]),
        ("highest_entropy", [1, 2]),
        ("newest", [0, 1]),
        ("random", [0, 1]),
        ("likeliest", [0, 1]),
    ],
)
def test_what_is_kept_is_what_would_be_chosen(choice: Choice, leave: list[int]) -> None:
    with planted(*NAN_LAST) as store:
        pool = Pool(store)
        rows = np.arange(5)
        badness = Chooser(choice, 8, nobody).lasting_badness(pool, rows)
        assert beyond_task(pool, rows, badness, 3).tolist() == leave

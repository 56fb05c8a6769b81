from __future__ import annotations

import numpy as np
import pytest

from recollect.replay.buckets import Shape, bucket_name, bucket_weights, task_weights
from recollect.replay.sampling import draw


def test_a_buckets_share_does_not_depend_on_its_size() -> None:
    rates = np.array([0.25, 0.5, 0.5, 0.5, 0.75])
    weights = task_weights(rates, "gaussian", 0.5, 0.25)
    side = np.exp(-0.5)
    assert weights == pytest.approx([side, 1 / 3, 1 / 3, 1 / 3, side])
    # Equal rates of groups of different sizes are one bucket: 1 of 3 and 2 of 6.
    assert task_weights(np.array([1 / 3, 2 / 6, 0.1 + 0.2 - 0.3 + 1 / 3]), "uniform", 0.5, 1) == (
        pytest.approx([1 / 3] * 3)
    )


def test_draws_follow_the_buckets() -> None:
    """Nine tasks in one bucket and one in the other: both buckets are drawn as often."""
    rates = np.array([0.25] * 9 + [0.75])
    weights = task_weights(rates, "gaussian", 0.5, 0.125)
    rng = np.random.default_rng(0)
    single = sum(draw(weights, 1, rng).positions[0] == 9 for _ in range(4000))
    assert single / 4000 == pytest.approx(0.5, abs=5 * 0.5 / 4000**0.5)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [("uniform", [1, 1, 1, 1]), ("linear", [0, 0.25, 0.5, 1]), ("sqrt", [0, 0.5, 0.5**0.5, 1])],
)
def test_other_shapes(shape: Shape, expected: list[float]) -> None:
    rates = np.array([0, 0.25, 0.5, 1])
    assert bucket_weights(rates, shape, 0.5, 0.125) == pytest.approx(expected)


def test_a_centre_of_ones_own() -> None:
    weights = bucket_weights(np.array([0.2, 0.3, 0.4]), "gaussian", 0.3, 0.1)
    assert weights == pytest.approx([np.exp(-0.5), 1, np.exp(-0.5)])


def test_no_tasks() -> None:
    assert task_weights(np.empty(0), "gaussian", 0.5, 0.1).size == 0


@pytest.mark.parametrize(
    ("successes", "rows", "name"),
    [(0, 8, "0"), (8, 8, "1"), (1, 8, "0.1-0.2"), (4, 8, "0.5-0.6"), (7, 8, "0.8-0.9")]
    + [(1, 10, "0.1-0.2"), (3, 10, "0.3-0.4"), (7, 10, "0.7-0.8"), (99, 100, "0.9-1")]
    + [(1, 100, "0-0.1")],
)
def test_names(successes: int, rows: int, name: str) -> None:
    assert bucket_name(successes, rows) == name

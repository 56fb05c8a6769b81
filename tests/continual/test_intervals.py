from __future__ import annotations

import numpy as np
import pytest

from recollect.continual.intervals import (
    NOT_KNOWN,
    build_matrix,
    cell_interval,
    measure_interval,
)
from recollect.continual.transfer import backward_transfer, forward_transfer


def test_the_matrix_is_made_of_means() -> None:
    scores = {
        "base": {"a": [0, 0], "b": [0, 1]},
        "0": {"a": [1, 0], "b": [0, 0]},
        "1": {"a": [1, 1]},
    }
    matrix = build_matrix(["a", "b"], scores)
    assert matrix.stages == ((0.5, 0.0), (1.0, None))
    assert matrix.base == (0.0, 0.5)
    assert matrix.joint is None


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for number in range(200):
        low_high = cell_interval(rng.binomial(1, 0.4, 60).tolist(), f"cell {number}")
        assert low_high.low is not None
        assert low_high.high is not None
        hits += low_high.low <= 0.4 <= low_high.high
    assert 0.90 <= hits / 200 <= 0.99


def test_pairing_takes_the_difficulty_of_tasks_out() -> None:
    """A task is as hard at both stages: the loss of exactly one task in ten is seen clearly."""
    hard = [0.0] * 50 + [1.0] * 50
    after = [0.0] * 60 + [1.0] * 40
    paired = cell_interval([a - b for a, b in zip(after, hard, strict=True)], "a")
    assert paired.low is not None
    assert paired.high is not None
    assert paired.high < 0
    scores = {"0": {"a": hard, "b": hard}, "1": {"a": after, "b": hard}}
    found = measure_interval(["a", "b"], scores, backward_transfer)
    assert (found.low, found.high) == (pytest.approx(paired.low), pytest.approx(paired.high))
    alone = cell_interval(hard, "a")
    assert alone.low is not None
    assert alone.high is not None
    assert found.high is not None
    assert found.low is not None
    assert found.high - found.low < alone.high - alone.low


def test_what_cannot_be_known_has_no_interval() -> None:
    assert cell_interval([1.0], "a") == NOT_KNOWN
    scores = {"0": {"a": [0.0, 1.0], "b": [0.0, 1.0]}, "1": {"a": [1.0, 1.0], "b": [1.0, 1.0]}}
    assert measure_interval(["a", "b"], scores, forward_transfer) == NOT_KNOWN

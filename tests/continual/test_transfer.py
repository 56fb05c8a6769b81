"""Transfer measures: the seed's sample, matrices worked by hand, and what is undefined."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.continual.matrix import ScoreMatrix, Undefined
from recollect.continual.transfer import (
    MEASURES,
    average_incremental,
    average_performance,
    backward_transfer,
    floor_corrected,
    forgetting,
    forward_transfer,
    intransigence,
    learning_accuracy,
    single_gap,
)

# airline, retail after airline; then both after retail: seed 001's printed figures.
SEED = ScoreMatrix(("airline", "retail"), ((0.456, None), (0.423, 0.389)))
HAND = ScoreMatrix(
    ("a", "b", "c"),
    ((0.6, 0.2, 0.1), (0.7, 0.5, 0.3), (0.4, 0.45, 0.8)),
    base=(0.1, 0.1, 0.2),
    single=(0.6, 0.6, 0.6),
    joint=(0.7, 0.6, 0.7),
)


def test_the_seeds_sample() -> None:
    assert f"{backward_transfer(SEED):.4f}" == "-0.0330"
    assert f"{average_performance(SEED):.4f}" == "0.4060"
    assert f"{forgetting(SEED):.4f}" == "0.0330"
    third = ScoreMatrix(("a", "b", "c"), ((None,) * 3, (None,) * 3, (0.423, 0.389, 0.412)))
    assert average_performance(third) == pytest.approx(0.408)


def test_a_matrix_worked_by_hand() -> None:
    assert average_performance(HAND) == pytest.approx((0.4 + 0.45 + 0.8) / 3)
    assert average_performance(HAND, 1) == pytest.approx(0.6)
    assert average_incremental(HAND) == pytest.approx((0.6 + 0.6 + 0.55) / 3)
    assert learning_accuracy(HAND) == pytest.approx((0.6 + 0.5 + 0.8) / 3)
    # a: 0.4 - 0.6, b: 0.45 - 0.5
    assert backward_transfer(HAND) == pytest.approx((-0.2 - 0.05) / 2)
    # a was best after b: 0.7 - 0.4; b: 0.5 - 0.45
    assert forgetting(HAND) == pytest.approx((0.3 + 0.05) / 2)
    # b before its turn: 0.2 - 0.1; c: 0.3 - 0.2
    assert forward_transfer(HAND) == pytest.approx(0.1)
    assert intransigence(HAND) == pytest.approx((0.1 + 0.1 - 0.1) / 3)
    assert single_gap(HAND) == pytest.approx((0.0 - 0.1 + 0.2) / 3)


def test_undefined_is_said_with_its_reason() -> None:
    alone = ScoreMatrix(("a", "b"), ((0.5, 0.1),))
    assert backward_transfer(alone) == Undefined("one domain has no earlier one")
    assert forgetting(alone) == Undefined("one domain has no earlier one")
    assert str(forward_transfer(alone)) == "n/a (one domain has no earlier one)"
    two = ScoreMatrix(("a", "b"), ((0.5, 0.1), (0.4, 0.4)))
    assert "base model was not measured on b" in str(forward_transfer(two))
    assert "jointly trained model was not measured on a" in str(intransigence(two))
    assert "alone was not measured on a" in str(single_gap(two))
    unseen = ScoreMatrix(("a", "b"), ((0.5, None), (0.4, 0.4)), base=(0.1, 0.1))
    assert forward_transfer(unseen) == Undefined("R[0][1] was not measured")
    nothing = ScoreMatrix(("a",), ())
    assert all(isinstance(measure(nothing), Undefined) for measure in MEASURES.values())


def test_floors() -> None:
    assert floor_corrected(0.5, 0.35) == pytest.approx(0.15 / 0.65)
    assert floor_corrected(0.2, 0.3) == pytest.approx(-1 / 7)
    assert isinstance(floor_corrected(0.5, None), Undefined)
    assert isinstance(floor_corrected(1.0, 1.0), Undefined)


@given(st.integers(2, 5).flatmap(lambda n: st.lists(
    st.lists(st.floats(0, 1), min_size=n, max_size=n), min_size=n, max_size=n)))  # fmt: skip
def test_forgetting_is_at_least_what_was_lost(rows: list[list[float]]) -> None:
    matrix = ScoreMatrix(tuple(map(str, range(len(rows)))), tuple(map(tuple, rows)))
    lost, forgotten = backward_transfer(matrix), forgetting(matrix)
    assert isinstance(lost, float)
    assert isinstance(forgotten, float)
    assert forgotten >= -lost - 1e-12
    first, early = forgetting(matrix, 1), backward_transfer(matrix, 1)
    assert isinstance(early, float)
    assert first == pytest.approx(-early)

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.train.scoring import ESTIMATORS, score
from recollect.trajectory import Trajectory

from .rows import make_row


def rows_of(*groups: list[float]) -> list[Trajectory]:
    return [
        make_row([1, 2], [False, True], f"{g}-{n}", f"group-{g}", reward)
        for g, rewards in enumerate(groups)
        for n, reward in enumerate(rewards)
    ]


def advantages(rows: list[Trajectory], estimator: str, penalties: list[float] | None = None):
    batch = score(rows, estimator, penalties or [0.0] * len(rows))
    assert [row.trajectory for row in batch.rows] == rows
    return [row.advantage for row in batch.rows], [row.signal for row in batch.rows]


def test_by_hand() -> None:
    rows = rows_of([0.0, 1.0], [1.0, 1.0])
    half = 0.5 / (math.sqrt(0.5) + 1e-6)
    values, signal = advantages(rows, "grpo")
    assert values == pytest.approx([-half, half, 0, 0])
    assert signal == [True, True, False, False]
    assert advantages(rows, "dr_grpo")[0] == pytest.approx([-0.5, 0.5, 0, 0])
    assert advantages(rows, "rloo")[0] == pytest.approx([-1, 1, 0, 0])
    # Mean 0.75, sample deviation 0.5: every row is compared with the whole batch.
    values, signal = advantages(rows, "reinforce_plus_plus")
    assert values == pytest.approx([-1.5, 0.5, 0.5, 0.5])
    assert all(signal)
    spread = math.sqrt(0.5 / 3)
    values, _ = advantages(rows, "reinforce_plus_plus_baseline")
    assert values == pytest.approx([-0.5 / spread, 0.5 / spread, 0, 0])


def test_groups_are_known_by_id_not_by_order() -> None:
    a, b = rows_of([0.0, 1.0], [0.0, 4.0])[:2], rows_of([9.0, 9.0], [0.0, 4.0])[2:]
    mixed = [a[0], b[0], a[1], b[1]]
    assert advantages(mixed, "dr_grpo")[0] == pytest.approx([-0.5, -2, 0.5, 2])


def test_penalties_come_off_the_reward() -> None:
    rows = rows_of([1.0, 1.0])
    assert advantages(rows, "dr_grpo", [0.5, 0.0])[0] == pytest.approx([-0.25, 0.25])


def test_one_penalty_per_row() -> None:
    with pytest.raises(ValueError, match="zip"):
        score(rows_of([1.0, 0.0]), "grpo", [0.0])


def test_a_reward_needs_nobody_to_compare_with() -> None:
    (row,) = score(rows_of([1.0]), "reward", [0.25]).training
    assert row.advantage == 0.75


@pytest.mark.parametrize("estimator", [name for name in ESTIMATORS if name != "reward"])
def test_nothing_to_score(estimator: str) -> None:
    assert score([], estimator, []).rows == ()
    assert not score(rows_of([1.0]), estimator, [0.0]).training
    assert not score(rows_of([1.0, 1.0], [1.0]), estimator, [0.0] * 3).training


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_row_that_lost_its_reward_is_left_for_the_guard_to_refuse(estimator: str) -> None:
    batch = score(rows_of([0.0, 1.0, 0.5]), estimator, [math.nan, 0.0, 0.0])
    assert math.isnan(batch.rows[0].advantage)
    assert batch.rows[0].signal
    assert all(math.isfinite(row.advantage) for row in batch.rows[1:])


@pytest.mark.parametrize("estimator", ESTIMATORS)
@settings(max_examples=40, deadline=None)
@given(
    groups=st.lists(
        st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.1, 1e-30, 1e30, -1e30, 1e9]), max_size=8),
        max_size=6,
    )
)
def test_ordinary_and_absurd_rewards_give_finite_advantages(
    estimator: str, groups: list[list[float]]
) -> None:
    rows = rows_of(*groups)
    batch = score(rows, estimator, [0.0] * len(rows))
    for row in batch.rows:
        assert math.isfinite(row.advantage)
        assert row.signal or row.advantage == 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_rewards_beyond_reason_do_not_raise(estimator: str) -> None:
    score(rows_of([1.7e308, 1.7e308, -1.7e308], [1e200, 0.0]), estimator, [0.0] * 5)

"""Credit of tokens, by hand: rewards at the end, penalties on the way, one scale for a step."""

from __future__ import annotations

import numpy as np
import pytest

from recollect.train.credit import Credit, credit, explained_variance, whitened


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, "f4")


def test_two_rows_by_hand() -> None:
    """gamma 1/2, lambda 1/2. Row 1: deltas (0 + .5*2 - 1, 4 - 2) = (0, 2); A = (.5, 2).

    Row 2 has one token: A = 3 - 1.
    """
    one, two = credit([4.0, 3.0], [floats(1, 2), floats(1)], None, gamma=0.5, lam=0.5)
    assert one.raw.tolist() == [0.5, 2.0]
    assert one.returns.tolist() == [1.5, 4.0]
    assert one.error == pytest.approx(1.0)  # (0 + 2) / 2
    assert (one.advantage, one.priority("advantage")) == (1.25, 1.25)
    assert two.raw.tolist() == [2.0]
    assert two.values.tolist() == [1.0]


def test_penalties_are_paid_where_they_arise() -> None:
    (row,) = credit([1.0], [floats(0, 0, 0)], [floats(0.1, 0.2, 0.4)], gamma=1.0, lam=1.0)
    assert row.raw == pytest.approx([0.3, 0.4, 0.6])
    assert row.error == pytest.approx((0.1 + 0.2 + 0.6) / 3)


def test_priorities_are_sizes_and_do_not_cancel() -> None:
    row = Credit(floats(0, 0), floats(1, -1), floats(1, -1), floats(5, -5), 0.75)
    assert row.advantage == 0.0
    assert row.priority("advantage") == 1.0  # before whitening: one scale for life
    assert row.priority("td_error") == 0.75


def test_whitening_goes_over_the_tokens_of_all_rows() -> None:
    rows = credit([1.0, 0.0, 2.0], [floats(0, 0, 0), floats(0), floats(0, 0)], None,
                  gamma=1.0, lam=1.0)  # fmt: skip
    numbers = np.array([1, 1, 1, 0, 2, 2])
    full = np.concatenate([row.advantages for row in whitened(rows, "full")])
    assert full == pytest.approx((numbers - numbers.mean()) / numbers.std(ddof=1), abs=1e-6)
    scale = np.concatenate([row.advantages for row in whitened(rows, "scale")])
    assert scale == pytest.approx(numbers / numbers.std(ddof=1), abs=1e-6)
    none = np.concatenate([row.advantages for row in whitened(rows, "off")])
    assert none.tolist() == numbers.tolist()
    for row, white in zip(rows, whitened(rows, "full"), strict=True):
        assert white.raw.tolist() == row.raw.tolist()


def test_rows_without_any_spread() -> None:
    rows = credit([1.0, 1.0], [floats(0, 0), floats(0)], None, gamma=1.0, lam=1.0)
    assert [row.advantages.tolist() for row in whitened(rows, "full")] == [[0, 0], [0]]
    assert [row.advantages.tolist() for row in whitened(rows, "scale")] == [[1, 1], [1]]
    assert credit([], [], None, gamma=1.0, lam=1.0) == []
    assert whitened([], "full") == []


def test_explained_variance() -> None:
    def said(values: np.ndarray, returns: np.ndarray) -> float | None:
        return explained_variance([Credit(values, returns, returns, returns, 0.0)])

    assert said(floats(1, 2, 3), floats(1, 2, 3)) == 1.0
    assert said(floats(2, 2, 2), floats(1, 2, 3)) == 0.0
    assert said(floats(3, 2, 1), floats(1, 2, 3)) == pytest.approx(-3.0)
    assert said(floats(0, 1, 2), floats(1, 2, 3)) == 1.0  # a constant error explains as much
    assert said(floats(1, 2), floats(3, 3)) is None
    assert explained_variance([]) is None


def test_absurd_rewards_are_left_to_the_guard() -> None:
    (row,) = credit([1.7e308], [floats(0, 0)], None, gamma=1.0, lam=1.0)
    assert not np.isfinite(row.advantage)
    assert not np.isfinite(row.priority("td_error"))

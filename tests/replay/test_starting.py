from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.replay.starting import Start, Triggers, quota


def test_pool_size() -> None:
    start = Start(Triggers(rows=10))
    assert not start.has_begun(1, 100, 9)
    assert start.has_begun(2, 100, 10)
    assert start.since == 2
    assert start.has_begun(3, 100, 0), "once it has begun, it goes on"
    assert start.since == 2


def test_solve_rate() -> None:
    start = Start(Triggers(rows=0, success=0.35))
    start.saw(34, 100)
    start.saw(0, 0)
    assert not start.has_begun(2, 100, 1)
    start.saw(35, 100)
    start.saw(0, 100)  # reached once is enough
    assert start.has_begun(4, 100, 1)
    assert start.since == 4


def test_progress() -> None:
    start = Start(Triggers(progress=0.35))
    begun = [step for step in range(1, 21) if start.has_begun(step, 20, 5)]
    assert begun[0] == 8, "7 of 20 steps are done"
    assert start.since == 8


def test_all_that_are_set_must_hold() -> None:
    start = Start(Triggers(rows=5, success=0.5, progress=0.5))
    start.saw(1, 2)
    assert not start.has_begun(3, 4, 4)
    assert not start.has_begun(2, 4, 5)
    assert start.has_begun(3, 4, 5)


def test_goes_on_from_a_checkpoint() -> None:
    start = Start(Triggers(rows=100, success=0.9), since=7, solved=True)
    assert start.has_begun(9, 10, 0)
    assert start.since == 7
    half = Start(Triggers(rows=1, success=0.9), since=0, solved=True)
    assert half.has_begun(9, 10, 1)


def test_nothing_has_begun_before_the_first_row() -> None:
    assert not Start(Triggers()).has_begun(1, 10, 0)


# Reference 2.9: batch 64 and ratio 0.5 mix 32 tasks, 10 mix 5, 3 mix 1. There 1 of 3 for ever;
# here the half that is left over is not lost.
@pytest.mark.parametrize(
    ("share", "whole", "given_out"),
    [
        (0.5, 64, [32, 32, 32]),
        (0.5, 10, [5, 5, 5]),
        (0.5, 3, [1, 2, 1, 2]),
        (0.1, 3, [0, 0, 0, 1, 0, 0, 1, 0, 0, 1]),
        (0.1, 10, [1] * 30),
        (1.0, 7, [7, 7]),
        (0.0, 7, [0, 0]),
    ],
)
def test_quotas_carry_fractions(share: float, whole: int, given_out: list[int]) -> None:
    since = 5
    found = [quota(share, whole, since, since + place) for place in range(len(given_out))]
    assert found == given_out


@given(st.floats(0, 1), st.integers(1, 512), st.integers(1, 40), st.integers(1, 300))
def test_no_fraction_is_lost(share: float, whole: int, since: int, steps: int) -> None:
    found = [quota(share, whole, since, since + place) for place in range(steps)]
    assert sum(found) == pytest.approx(steps * share * whole, abs=1.001)
    assert sum(found) <= steps * share * whole + 1e-6
    assert all(0 <= each <= whole for each in found)

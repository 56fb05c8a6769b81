import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.telemetry.scores import Score, by_domain, pool, score_metrics

from .naming import undocumented

SCORES = (
    Score("airline", 1, 30, 15, floor=0.0, reward=0.5, reward_std=0.5),
    Score("airline", 2, 10, 1, floor=0.2, reward=0.1, reward_std=0.3),
    Score("retail", 1, 20, 20, floor=0.1, reward=1.0, reward_std=0.0),
)


def test_every_attempt_counts_the_same() -> None:
    total = pool(SCORES)
    assert (total.n, total.successes, total.success) == (60, 36, 0.6)
    assert total.floor == pytest.approx((0 * 30 + 0.2 * 10 + 0.1 * 20) / 60)
    assert total.reward == pytest.approx((15 + 1 + 20) / 60)


def test_spread_is_that_of_the_attempts_themselves() -> None:
    # Rewards 0 and 1: 36 ones among 60 have the standard deviation sqrt(.6 * .4).
    assert pool(SCORES).reward_std == pytest.approx(math.sqrt(0.6 * 0.4))


def test_unknown_stays_unknown() -> None:
    total = pool([SCORES[0], Score("retail", 1, 5, 0)])
    assert (total.floor, total.reward, total.reward_std) == (None, None, None)
    nothing = pool([])
    assert (nothing.n, nothing.success, nothing.interval()) == (0, None, None)


def test_a_cell_without_attempts_takes_nothing_away() -> None:
    total = pool([SCORES[0], Score("retail", 1, 0, 0)])
    assert (total.floor, total.reward) == (0.0, 0.5)


def test_domains_keep_their_order() -> None:
    assert [(s.domain, s.level, s.n) for s in by_domain(SCORES)] == [
        ("airline", None, 40),
        ("retail", None, 20),
    ]


def test_metrics_have_documented_names() -> None:
    metrics = score_metrics(SCORES)
    assert undocumented(metrics) == []
    assert metrics["eval/success"] == 0.6
    assert metrics["eval/success/airline"] == 0.4
    assert metrics["eval/success/airline/2"] == 0.1
    assert metrics["eval/tasks"] == 60
    assert "eval/reward" not in score_metrics([Score("x", None, 1, 1)])


def test_wilson_by_hand() -> None:
    # Newcombe (1998), table I: 81 of 263 has the interval .2553 to .3662.
    low, high = Score("x", 1, 263, 81).interval() or (0, 0)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)


@given(st.integers(1, 500), st.data())
def test_intervals_hold_the_rate(n: int, data: st.DataObject) -> None:
    score = Score("x", 1, n, data.draw(st.integers(0, n)))
    low, high = score.interval() or (9, 9)
    assert 0 <= low <= (score.success or 0) + 1e-12
    assert (score.success or 0) - 1e-12 <= high <= 1


def test_more_successes_than_attempts_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        Score("x", 1, 2, 3)

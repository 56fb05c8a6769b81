"""Shares: everything once, in order, evenly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recollect.engines.shares import cut


@given(st.lists(st.floats(0, 1000), max_size=40), st.integers(1, 9))
def test_every_place_is_in_one_share(costs: list[float], parts: int) -> None:
    shares = cut(costs, parts)
    assert len(shares) == parts
    assert [place for share in shares for place in share] == list(range(len(costs)))


def test_shares_cost_nearly_the_same() -> None:
    assert cut([1.0] * 6, 2) == [range(3), range(3, 6)]
    assert cut([1.0] * 5, 2) == [range(2), range(2, 5)]
    assert cut([9.0, 1.0, 1.0, 1.0, 6.0], 2) == [range(1), range(1, 5)]
    assert cut([1.0], 3) == [range(0), range(1), range(1, 1)]
    assert cut([], 2) == [range(0), range(0)]

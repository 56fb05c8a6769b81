from __future__ import annotations

from itertools import combinations

import pytest

from recollect.continual.matrix import Undefined
from recollect.continual.reliability import pass_at_k, pass_hat_k


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_against_every_way_to_choose_k_attempts(k: int) -> None:
    counts, attempts = [0, 1, 3, 4], 4
    any_of, all_of = [], []
    for c in counts:
        ways = list(combinations([True] * c + [False] * (attempts - c), k))
        any_of.append(sum(map(any, ways)) / len(ways))
        all_of.append(sum(map(all, ways)) / len(ways))
    assert pass_at_k(counts, attempts, k) == pytest.approx(sum(any_of) / len(counts))
    assert pass_hat_k(counts, attempts, k) == pytest.approx(sum(all_of) / len(counts))


def test_too_few_attempts_are_no_zero() -> None:
    assert pass_at_k([1], 2, 3) == Undefined("3 attempts cannot be judged from 2")
    assert isinstance(pass_hat_k([], 2, 1), Undefined)

"""Success in k attempts: in at least one of them, or in all of them. Always said which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

from recollect.continual.matrix import Measure, Undefined


def pass_at_k(successes: Sequence[int], attempts: int, k: int) -> Measure:
    """pass@k = mean over tasks of 1 - C(n - c, k) / C(n, k): any of k attempts succeeds.

    The unbiased estimate of Chen et al. 2021 from n attempts of which c succeeded.
    """
    return _mean_of(successes, attempts, k, lambda c: 1 - comb(attempts - c, k) / comb(attempts, k))


def pass_hat_k(successes: Sequence[int], attempts: int, k: int) -> Measure:
    """pass^k = mean over tasks of C(c, k) / C(n, k): all of k attempts succeed (tau-bench)."""
    return _mean_of(successes, attempts, k, lambda c: comb(c, k) / comb(attempts, k))


def _mean_of(
    successes: Sequence[int], attempts: int, k: int, each: Callable[[int], float]
) -> Measure:
    assert all(0 <= c <= attempts for c in successes), "more successes than attempts"
    if not successes:
        return Undefined("no task was tried")
    if not 1 <= k <= attempts:
        return Undefined(f"{k} attempts cannot be judged from {attempts}")
    return float(sum(each(c) for c in successes) / len(successes))

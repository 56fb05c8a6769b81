"""Reference 2.15 and 8.4: shares of the buckets, n = 8."""

from __future__ import annotations

import numpy as np
import pytest

from recollect.replay.buckets import task_weights
from recollect.replay.sampling import draw, inclusion

RATES = np.arange(1, 8) / 8
RELEASED = [0.0044, 0.0540, 0.2420, 0.3991, 0.2420, 0.0540, 0.0044]  # sigma = 1 success
REPORTED = [0.137, 0.143, 0.146, 0.147, 0.146, 0.143, 0.137]  # sigma = 1 in units of the rate


def shares(sigma: float, sizes: list[int] | None = None) -> list[float]:
    """Share of each bucket, k = 1 to 7 successes, as a draw of one task would have it."""
    rates = np.repeat(RATES, sizes or [1] * 7)
    chances = inclusion(task_weights(rates, "gaussian", 0.5, sigma), 1)
    return [float(chances[rates == rate].sum()) for rate in RATES]


def test_one_success_of_eight_is_an_eighth() -> None:
    assert shares(0.125) == pytest.approx(RELEASED, abs=6e-5)
    count = np.exp(-0.5 * (np.arange(1, 8) - 4.0) ** 2)
    assert shares(0.125) == pytest.approx(count / count.sum())


def test_a_sigma_of_one_in_rates_is_nearly_flat() -> None:
    assert shares(1.0) == pytest.approx(REPORTED, abs=6e-4)


def test_sizes_of_buckets_do_not_matter() -> None:
    assert shares(0.125, [9, 1, 4, 30, 2, 1, 5]) == pytest.approx(RELEASED, abs=6e-5)


def test_drawn_shares() -> None:
    weights = task_weights(RATES, "gaussian", 0.5, 0.125)
    rng, trials = np.random.default_rng(1), 6000
    hits = np.zeros(7)
    for _ in range(trials):
        hits[draw(weights, 1, rng).positions] += 1
    expected = np.array(RELEASED)
    error = np.sqrt(expected * (1 - expected) / trials)
    assert (np.abs(hits / trials - expected) < 5 * error + 1e-3).all()


def test_what_a_full_bucket_cannot_take_goes_to_the_others() -> None:
    """Five tasks of seven, one in each bucket: the middle ones are certain, the total is kept."""
    chances = inclusion(task_weights(RATES, "gaussian", 0.5, 0.125), 5)
    assert chances.sum() == pytest.approx(5)
    assert (chances <= 1).all()
    assert chances[2:5] == pytest.approx([1, 1, 1])
    assert chances[0] == pytest.approx(chances[6])

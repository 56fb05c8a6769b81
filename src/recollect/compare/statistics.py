"""What may be concluded from a few seeds: pure functions, paired by seed.

Infinity stands for "never reached" (censored), NaN for "not known". Neither is dropped, and
neither becomes 0: what cannot be calculated is undefined, and an interval is as wide as the
undefined resamples could make it.

Intervals are bootstrap percentiles over seeds. For means of a few seeds these are known to be too
narrow, so their tails are cut further out, by as much as Student's t is wider than the normal
distribution and n is larger than n - 1 ("expanded percentiles", Hesterberg 2015, What Teachers
Should Know About the Bootstrap, section 5.3). Medians need no such thing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from recollect.randomness import stream

Floats: TypeAlias = npt.NDArray[np.float64]
# From values in the last axis to one number per row.
Statistic: TypeAlias = Callable[[Floats], Floats]

RESAMPLES = 10_000
CONFIDENCE = 0.95
_TAIL = (1 - CONFIDENCE) / 2
# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
            2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)  # fmt: skip
_SEED = 0  # of the resampling: the same runs always give the same interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its bootstrap percentile interval.

    `point` is None where it is undefined. `low` and `high` may be infinite, and are None where
    there is one seed only. `undefined` is the share of resamples without a value; each of them
    counts as the smallest possible value in `low` and as the largest in `high`.
    """

    point: float | None
    low: float | None
    high: float | None
    undefined: float

    def excludes(self, value: float) -> bool:
        """Tell whether the whole interval lies on one side of a value."""
        if self.point is None or self.low is None or self.high is None:
            return False
        return value < self.low or value > self.high


@dataclass(frozen=True, slots=True)
class Signs:
    """In how many seeds the first of two arms was better, worse, or not to be told apart."""

    better: int
    worse: int
    ties: int

    @property
    def p(self) -> float:
        """Two-sided sign test over the seeds that are no ties; 1 without any."""
        n, most = self.better + self.worse, max(self.better, self.worse)
        tail = sum(math.comb(n, k) for k in range(most, n + 1))
        return min(1.0, 2 * tail / float(2**n))


def median(values: Floats) -> Floats:
    """Median over the last axis; infinite as soon as a middle value is, NaN if any value is."""
    return np.asarray(np.median(values, axis=-1), dtype=np.float64)


def mean(values: Floats) -> Floats:
    """Mean over the last axis."""
    return np.asarray(np.mean(values, axis=-1), dtype=np.float64)


def restricted_mean(horizon: float) -> Statistic:
    """Mean of values cut at a horizon: what was never reached counts as the horizon itself."""

    def over(values: Floats) -> Floats:
        return mean(np.minimum(values, horizon))

    return over


def summary(values: Sequence[float], statistic: Statistic, name: str) -> Estimate:
    """Estimate one arm's statistic, a median, of values of at least 0.

    `name` keeps the random numbers of different estimates apart.
    """
    one = np.array(values, dtype=np.float64)
    return _bootstrap(len(one), lambda rows: statistic(one[rows]), name, (0.0, math.inf), _TAIL)


def ratio(
    above: Sequence[float],
    below: Sequence[float],
    statistic: Statistic,
    name: str,
    *,
    of_means: bool = False,
) -> Estimate:
    """Estimate statistic(above) / statistic(below), resampling seeds so that pairs stay pairs.

    Values are at least 0. inf / inf and 0 / 0 are undefined. `of_means` says that the statistic
    is a kind of mean, whose interval is expanded.
    """
    top, bottom = _paired(above, below)

    def over(rows: npt.NDArray[np.int64]) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return statistic(top[rows]) / statistic(bottom[rows])

    tail = expanded_tail(len(top)) if of_means else _TAIL
    return _bootstrap(len(top), over, name, (0.0, math.inf), tail)


def difference(first: Sequence[float], second: Sequence[float], name: str) -> Estimate:
    """Estimate the mean of first - second over the seeds; shares, so within -1 and 1."""
    one, other = _paired(first, second)
    tail = expanded_tail(len(one))
    return _bootstrap(len(one), lambda rows: mean((one - other)[rows]), name, (-1.0, 1.0), tail)


def signs(first: Sequence[float], second: Sequence[float], *, smaller_is_better: bool) -> Signs:
    """Count the seeds in which the first is better. Unknown, or both infinite, is a tie."""
    one, other = _paired(first, second)
    less, more = int(np.sum(one < other)), int(np.sum(one > other))
    better, worse = (less, more) if smaller_is_better else (more, less)
    return Signs(better, worse, len(one) - less - more)


def expanded_tail(n: int) -> float:
    """Share of resamples to cut off at each end so that the mean of n seeds is covered."""
    if n < 2:
        return _TAIL
    t = _STUDENT[n - 2] if n - 1 <= len(_STUDENT) else 1.96 + 2.4 / (n - 1)
    return NormalDist().cdf(-t * math.sqrt(n / (n - 1)))


def _paired(first: Sequence[float], second: Sequence[float]) -> tuple[Floats, Floats]:
    one, other = np.array(first, dtype=np.float64), np.array(second, dtype=np.float64)
    assert one.shape == other.shape, f"{len(one)} values beside {len(other)}: not paired"
    return one, other


def _bootstrap(
    n: int,
    over: Callable[[npt.NDArray[np.int64]], Floats],
    name: str,
    possible: tuple[float, float],
    tail: float,
) -> Estimate:
    """Resample n seeds and cut a share `tail` off at both ends.

    `possible` is the range that an undefined value may lie in.
    """
    if not n:
        return Estimate(None, None, None, 1.0)
    point = float(over(np.arange(n)[None, :])[0])
    known = None if math.isnan(point) else point
    if n == 1:
        return Estimate(known, None, None, float(known is None))
    rows = stream(_SEED, "compare", name, n).integers(0, n, (RESAMPLES, n))
    values = over(rows)
    missing = np.isnan(values)
    smallest = np.sort(np.where(missing, possible[0], values))
    largest = np.sort(np.where(missing, possible[1], values))
    # Ranks, not interpolation: between a number and infinity there is nothing to interpolate.
    cut = round(RESAMPLES * tail)
    low, high = float(smallest[cut]), float(largest[-1 - cut])
    return Estimate(known, low, high, float(missing.mean()))

"""What may be concluded from a few seeds: pure functions, paired by seed.

Infinity stands for "never reached" (censored), NaN for "not known". Neither is dropped, and
neither becomes 0: what cannot be calculated is undefined, and an interval is as wide as what is
not known could make it.

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
Rows: TypeAlias = npt.NDArray[np.int64]
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
    there is one seed only. `undefined` is the share of resamples without a value. `low` takes
    what is not known for as small as it may be, `high` for as large.
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
class Costs:
    """What each seed needed, at least 0; infinite where it never got there.

    `least` is what is certain: the same, or for those that never got there, all they used up.
    """

    values: tuple[float, ...]
    least: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Signs:
    """In how many seeds the first of two arms was better, worse, or not to be told apart."""

    better: int
    worse: int
    ties: int


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
    return _bootstrap(_Resampled(len(one), lambda rows: statistic(one[rows])), name, _TAIL)


def ratio(
    above: Costs, below: Costs, statistic: Statistic, name: str, *, of_means: bool = False
) -> Estimate:
    """Estimate statistic(above) / statistic(below), resampling seeds so that pairs stay pairs.

    In `point` a cost that was never reached is infinite; inf / inf and 0 / 0 are undefined. `low`
    takes it for as little as it may be where that lowers the ratio, `high` where that raises it:
    who gave up after 100 seconds may have needed 101. `of_means` says that the statistic is a
    kind of mean, whose interval is expanded.
    """
    top, bottom = _paired(above.values, below.values)
    least_top, least_bottom = _paired(above.least, below.least)

    def over(one: Floats, other: Floats) -> Callable[[Rows], Floats]:
        def divide(rows: Rows) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                return statistic(one[rows]) / statistic(other[rows])

        return divide

    resampled = _Resampled(
        len(top), over(top, bottom), over(least_top, bottom), over(top, least_bottom)
    )
    return _bootstrap(resampled, name, expanded_tail(len(top)) if of_means else _TAIL)


def difference(first: Sequence[float], second: Sequence[float], name: str) -> Estimate:
    """Estimate the mean of first - second over the seeds; shares, so within -1 and 1."""
    one, other = _paired(first, second)
    resampled = _Resampled(len(one), lambda rows: mean((one - other)[rows]), possible=(-1.0, 1.0))
    return _bootstrap(resampled, name, expanded_tail(len(one)))


def higher_signs(first: Sequence[float], second: Sequence[float]) -> Signs:
    """Count the seeds in which the first is higher, which is better. Unknown is a tie."""
    one, other = _paired(first, second)
    better, worse = int(np.sum(one > other)), int(np.sum(one < other))
    return Signs(better, worse, len(one) - better - worse)


def cheaper_signs(first: Costs, second: Costs) -> Signs:
    """Count the seeds in which the first cost less for certain, whatever was never reached."""
    one, other = _paired(first.values, second.values)
    least_one, least_other = _paired(first.least, second.least)
    better, worse = int(np.sum(one < least_other)), int(np.sum(other < least_one))
    return Signs(better, worse, len(one) - better - worse)


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


@dataclass(frozen=True, slots=True)
class _Resampled:
    """How n seeds become a value, and the least and most that it may really be.

    `possible` is the range that an undefined value may lie in.
    """

    n: int
    value: Callable[[Rows], Floats]
    least: Callable[[Rows], Floats] | None = None
    most: Callable[[Rows], Floats] | None = None
    possible: tuple[float, float] = (0.0, math.inf)


def _bootstrap(resampled: _Resampled, name: str, tail: float) -> Estimate:
    """Resample the seeds and cut a share `tail` off at both ends."""
    n = resampled.n
    if not n:
        return Estimate(None, None, None, 1.0)
    point = float(resampled.value(np.arange(n)[None, :])[0])
    known = None if math.isnan(point) else point
    if n == 1:
        return Estimate(known, None, None, float(known is None))
    rows = stream(_SEED, "compare", name, n).integers(0, n, (RESAMPLES, n))
    values = resampled.value(rows)
    least = resampled.least(rows) if resampled.least else values
    most = resampled.most(rows) if resampled.most else values
    smallest = np.sort(np.where(np.isnan(least), resampled.possible[0], least))
    largest = np.sort(np.where(np.isnan(most), resampled.possible[1], most))
    # Ranks, not interpolation: between a number and infinity there is nothing to interpolate.
    cut = round(RESAMPLES * tail)
    low, high = float(smallest[cut]), float(largest[-1 - cut])
    return Estimate(known, low, high, float(np.isnan(values).mean()))

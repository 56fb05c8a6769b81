"""How likely a row is to be drawn: priority, freshness and bucket, multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.replay.buckets import Shape, bucket_weights
from recollect.replay.eligibility import Now
from recollect.replay.pool import Pool
from recollect.replay.task_columns import TaskColumns

Floats: TypeAlias = NDArray[np.floating[Any]]
Priority: TypeAlias = Literal["equal", "advantage", "stored", "reward", "likelihood"]


@dataclass(frozen=True, slots=True)
class Weighing:
    """weight = (priority + floor)^alpha * 2^(-age / half_life) * bucket weight of the task."""

    priority: Priority = "equal"
    alpha: float = 1.0
    half_life: float | None = None
    buckets: Shape = "uniform"
    center: float = 0.5
    sigma: float = 0.125
    floor: float = 0.0


def row_weights(
    pool: Pool, tasks: TaskColumns, weighing: Weighing, now: Now, allowed: NDArray[np.bool_]
) -> Floats:
    """Weight of each row of the pool [n], >= 0 and finite; 0 for rows that are not allowed."""
    # Only allowed rows are weighed: of a large pool, an age limit leaves few.
    rows = np.flatnonzero(allowed)
    found = np.zeros(len(pool))
    found[rows] = weigh(pool, tasks, weighing, now, rows, now.version)
    return found


def weigh(
    pool: Pool,
    tasks: TaskColumns,
    weighing: Weighing,
    now: Now,
    rows: NDArray[np.int64],
    epoch: int,
) -> NDArray[np.float64]:
    """Weight of some rows [positions], >= 0 and finite, times 2^((now - epoch) / half_life).

    A row without the figure that the priority asks for (never trained on, never sampled) has
    weight 0. Tasks that were not tried yet count like a success rate of `center`. A draw goes by
    weights relative to each other; against a fixed `epoch` (a policy version) that of a row does
    not change while the policy does, but for rows that no policy sampled.
    """
    weights = priorities(pool, weighing.priority, rows).astype(np.float64)
    if weighing.floor:
        weights = weights + weighing.floor
    if weighing.alpha == 0.5:
        weights = np.sqrt(weights)
    elif weighing.alpha != 1.0:
        # 0^0 is 1: with alpha = 0 even a row of no priority would count.
        weights = np.where(weights > 0, weights**weighing.alpha, 0.0)
    if weighing.half_life is not None:
        ages = np.maximum(pool.ages(now.version, now.run, rows), 0)
        born = now.version - ages.astype(np.float64)
        weights = weights * np.exp2((born - epoch) / weighing.half_life)
    if weighing.buckets != "uniform":
        weights = weights * _bucket_weights(tasks, weighing, pool.facts["task"][rows])
    return np.nan_to_num(weights, copy=False, nan=0.0, posinf=0.0, neginf=0.0)


def _bucket_weights(tasks: TaskColumns, weighing: Weighing, numbers: NDArray[np.int32]) -> Floats:
    """Bucket weight of each of the tasks [numbers]."""
    few = numbers.size < tasks.rate.size
    rates = tasks.rate[numbers] if few else tasks.rate
    rates = np.where(np.isnan(rates), weighing.center, rates)
    found = bucket_weights(rates, weighing.buckets, weighing.center, weighing.sigma)
    return found if few else found[numbers]


def priorities(pool: Pool, kind: Priority, rows: NDArray[np.int64]) -> Floats:
    """Priority of some rows of the pool, >= 0; NaN where it is not known."""
    if kind == "equal":
        return np.ones(rows.size)
    if kind == "advantage":
        return np.abs(pool.advantage[rows])
    if kind == "stored":
        return pool.priority[rows]
    if kind == "reward":
        return np.asarray(np.maximum(pool.facts["reward"][rows], 0.0))
    return np.asarray(np.exp(pool.facts["logprob"][rows]))


def priority_weights(
    probabilities: Floats, rows: int, beta: float, scale: float | None = None
) -> NDArray[np.float64]:
    """Weights (N p)^-beta of drawn rows, over the largest of them or over `scale`: [k], above 0.

    `probabilities` are inclusion probabilities of k draws from `rows` = N rows that could have
    been drawn; p is the share of one draw, probability / k, so that equal chances give weight 1.
    With beta = 1 a weighted sum over the draws is unbiased for k / N times the sum over all rows,
    divided by the scale: exactly so with a `scale` that does not depend on which rows came (see
    `largest_weight`), up to a factor of the draw's own without one. (Schaul et al. 2016,
    arXiv:1511.05952, for draws with replacement.)
    """
    if not probabilities.size:
        return np.empty(0)
    shares = np.asarray(probabilities, dtype=np.float64) / probabilities.size
    weights = (rows * shares) ** -beta
    return np.asarray(weights / (weights.max() if scale is None else scale))


def largest_weight(probabilities: Floats, draws: int, beta: float) -> float:
    """Largest weight (N p)^-beta that any of N rows with these inclusion probabilities can get."""
    return float((probabilities.size * float(probabilities.min()) / draws) ** -beta)


def grown_beta(beta: float, growth: float, since: int, step: int) -> float:
    """Beta of a step: `beta` in the first step with replay, `growth` more in each one after."""
    return min(1.0, beta + growth * (step - since))

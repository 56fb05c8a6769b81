"""Buckets: tasks by the success rate of their last fresh group, and how much each bucket counts.

ExGRPO (arXiv:2510.02245) draws tasks of medium difficulty most often. Its released sampler weighs
*buckets*: how many tasks a bucket holds does not change its share.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Shape: TypeAlias = Literal["uniform", "gaussian", "linear", "sqrt"]
Floats: TypeAlias = NDArray[np.floating[Any]]

_SAME = 1e-9  # rates nearer than this are one bucket


def bucket_weights(rates: Floats, shape: Shape, center: float, sigma: float) -> Floats:
    """Weight of the bucket of each success rate [n] in 0..1: how often it is drawn, relatively.

    - uniform: 1;
    - gaussian: exp(-(rate - center)^2 / (2 sigma^2)), sigma in units of the rate. 0.125 is what
      released ExGRPO does with 8 rows (one success); 1 is nearly flat;
    - linear: rate; sqrt: its square root. Both give rate 0 no weight at all.
    """
    rates = np.asarray(rates, dtype=np.float64)
    if shape == "uniform":
        return np.ones_like(rates)
    if shape == "gaussian":
        return np.asarray(np.exp(-0.5 * ((rates - center) / sigma) ** 2))
    return rates if shape == "linear" else np.sqrt(rates)


def task_weights(rates: Floats, shape: Shape, center: float, sigma: float) -> Floats:
    """Weight of each task [n]: its bucket's weight, divided among the bucket's tasks."""
    rates = np.asarray(rates, dtype=np.float64)
    if not rates.size:
        return rates
    keys = np.round(rates / _SAME).astype(np.int64)
    _, bucket, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    return bucket_weights(rates, shape, center, sigma) / sizes[bucket]


def bucket_name(successes: int, rows: int) -> str:
    """Name the tenth a rate falls into, for metrics: `0`, `0.1-0.2`, ..., `1`."""
    if successes in (0, rows):
        return "0" if successes == 0 else "1"
    low = min(9, int(10 * successes / rows + 1e-9))
    return f"{low / 10:g}-{(low + 1) / 10:g}"

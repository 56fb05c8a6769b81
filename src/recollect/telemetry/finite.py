"""Numbers fit for JSON: what is not finite becomes None, and is counted."""

from __future__ import annotations

import math
from collections.abc import Mapping

NOT_FINITE = "health/not_finite"


def finite_metrics(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Copy metrics, with None for NaN and infinities."""
    return {name: finite(value) for name, value in metrics.items()}


def counted_metrics(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Copy a step's metrics like `finite_metrics`, and add how many are None."""
    copy = finite_metrics({name: metrics[name] for name in metrics if name != NOT_FINITE})
    return {**copy, NOT_FINITE: float(sum(value is None for value in copy.values()))}


def finite(value: float | None) -> float | None:
    """Return the number as a float, None if it is not finite or not known."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None

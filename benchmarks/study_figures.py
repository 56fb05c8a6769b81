"""Figures of a study for a results file and for a table: JSON numbers, and how they are spelt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from recollect.compare.statistics import Estimate


def plain(value: float | None) -> float | None:
    """JSON has no word for infinite and undefined: both are null, and `reached` tells which."""
    return None if value is None or not math.isfinite(value) else round(float(value), 4)


def shown(settings: Sequence[str]) -> list[str]:
    """Settings with paths as seen from the folder in which the benchmark was started."""
    return [setting.replace(f"{Path.cwd()}/", "") for setting in settings]


def figures_of(estimate: Estimate) -> dict[str, float | None]:
    """Point and interval."""
    return {
        "point": plain(estimate.point),
        "low": plain(estimate.low),
        "high": plain(estimate.high),
    }


def spelt(estimate: dict[str, float | None], how: str = ".2f") -> str:
    """Write `1.50 [1.10, 2.00]`, a dash for what is not known."""
    point, low, high = (
        "-" if estimate[key] is None else format(estimate[key], how)
        for key in ("point", "low", "high")
    )
    return f"{point} [{low}, {high}]"

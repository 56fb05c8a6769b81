"""Figures of a study for a results file and for a table: JSON numbers, and how they are spelt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from recollect.compare.statistics import Estimate

Figure: TypeAlias = float | str | None


def plain(value: float | None) -> float | None:
    """Round a number for JSON; what was never reached and what is not known are null."""
    return None if value is None or not math.isfinite(value) else round(float(value), 4)


def _worded(value: float | None) -> Figure:
    """A figure of an estimate: "infinite" is a word, undefined is null."""
    return "infinite" if value is not None and math.isinf(value) else plain(value)


def shown(settings: Sequence[str]) -> list[str]:
    """Settings with paths as seen from the folder in which the benchmark was started."""
    return [setting.replace(f"{Path.cwd()}/", "") for setting in settings]


def figures_of(estimate: Estimate) -> dict[str, Figure]:
    """Point and interval."""
    return {
        "point": _worded(estimate.point),
        "low": _worded(estimate.low),
        "high": _worded(estimate.high),
    }


def spelt(estimate: dict[str, Figure], how: str = ".2f") -> str:
    """Write `1.50 [1.10, 2.00]`, a dash for what is not known."""
    point, low, high = (_spelt(estimate[key], how) for key in ("point", "low", "high"))
    return f"{point} [{low}, {high}]"


def _spelt(value: Figure, how: str) -> str:
    if isinstance(value, str):
        return value
    return "-" if value is None else format(value, how)

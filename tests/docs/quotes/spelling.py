"""How pages spell what was measured: ranges, intervals, ratios, points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

# A results file as JSON has it: figures, seeds, versions, command, commit.
Results: TypeAlias = dict[str, Any]
# Gives the pieces of a page that a results file decides, as the page should have them.
Quoting: TypeAlias = Callable[[Results], list[str]]

WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DOMAINS = ("airline", "retail", "telecom")


def short(value: float, large: float = 1.0, digits: int = 2) -> str:
    """Write `digits` decimals below `large`, and one decimal less from there on."""
    return f"{value:.{digits - (value >= large)}f}"


def span(values: Sequence[float], how: str = ".0f") -> str:
    """Write the smallest and the largest: `1.3 to 1.6`."""
    return f"{min(values):{how}} to {max(values):{how}}"


def spread(found: dict[str, float], how: str, joint: str = " to ") -> str:
    """Write a median with its smallest and largest value: `0.57 (0.37 to 0.77)`."""
    return f"{found['median']:{how}} ({found['min']:{how}}{joint}{found['max']:{how}})"


def ratio(value: float | str | None) -> str:
    """Write a ratio; null is infinite over infinite, 0 what replay alone did not reach."""
    if value is None:
        return "undefined"
    if isinstance(value, str):
        return value
    return "0" if value == 0 else f"{value:.2f}"


def points(value: float) -> str:
    """Write a difference of shares as points with a sign."""
    return f"{100 * value:+.1f}"


def estimate(found: dict[str, Any], spell: Callable[[Any], str] = ratio) -> str:
    """Write a point with its interval as tables do: `1.33 (0.93 to 3.00)`."""
    return f"{spell(found['point'])} ({spell(found['low'])} to {spell(found['high'])})"


def percent(value: float) -> str:
    """Write a share in per cent, with as many decimals as it has."""
    return f"{100 * value:.4g}"


def setting(settings: Sequence[str], name: str) -> str:
    """Read a setting that a results file lists; the last one counts."""
    return next(text.partition("=")[2] for text in reversed(settings) if text.startswith(name))

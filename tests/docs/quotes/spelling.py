"""How pages spell what was measured: numbers, ranges, intervals, words, claims."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

# A results file as JSON has it: figures, seeds, versions, command, commit.
Results: TypeAlias = dict[str, Any]
# Gives the pieces of a page that a results file decides, as the page should have them.
Quoting: TypeAlias = Callable[[Results], list[str]]

WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
         "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
         "nineteen", "twenty")  # fmt: skip
CHINESE = "零一二三四五六七八九十"
FRACTIONS = {0.25: "a quarter", 1 / 3: "a third", 0.5: "half", 2 / 3: "two thirds"}


def table(rows: Iterable[str]) -> str:
    """Join the rows of a table, which then stand on the page in this order, with none between."""
    return "\n".join(rows)


def claim(holds: bool, words: str) -> str:
    """Give the words as long as what they say is so, and else what no page has."""
    return words if holds else f"<NO LONGER TRUE: {words}>"


def share_in_words(share: float) -> str:
    """Spell a share by the fraction next to it."""
    return FRACTIONS[min(FRACTIONS, key=lambda fraction: abs(fraction - share))]


def short(value: float, large: float = 1.0, digits: int = 2) -> str:
    """Write `digits` decimals below `large`, and one decimal less from there on."""
    return f"{value:.{digits - (value >= large)}f}"


def spread(found: dict[str, float], how: str, joint: str = " to ") -> str:
    """Write a median with its smallest and largest value: `0.57 (0.37 to 0.77)`."""
    return f"{found['median']:{how}} ({found['min']:{how}}{joint}{found['max']:{how}})"


def estimate(found: dict[str, Any], spell: Callable[[Any], str]) -> str:
    """Write a point with its interval: `1.33 (0.93 to 3.00)`."""
    return f"{spell(found['point'])} ({spell(found['low'])} to {spell(found['high'])})"


def ratio(value: float | None) -> str:
    """Write a ratio; null is what was never reached."""
    if value is None:
        return "infinite"
    return "0" if value == 0 else f"{value:.2f}"


def points(value: float) -> str:
    """Write a difference of shares as points with a sign."""
    return f"{100 * value:+.1f}"


def percent(value: float) -> str:
    """Write a share in per cent, with as many decimals as it has."""
    return f"{100 * value:.4g}"


def reached(values: Sequence[float | None]) -> int:
    """Count the seeds that got there."""
    return sum(value is not None for value in values)


def median_reached(values: Sequence[float | None]) -> float:
    """Take the median of rollouts to a target, infinite for a seed that did not get there."""
    return statistics.median(math.inf if value is None else value for value in values)


def setting(settings: Sequence[str], name: str) -> str:
    """Read a setting that a results file lists; the last one counts."""
    return next(text.partition("=")[2] for text in reversed(settings) if text.startswith(name))


def generated(settings: Sequence[str]) -> int:
    """Count the rollouts of a run of the demo with these settings: groups of eight rows."""
    return (
        8 * int(setting(settings, "rollout.tasks_per_step")) * int(setting(settings, "run.steps"))
    )


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two ranges have something in common."""
    return one["min"] <= other["max"] and other["min"] <= one["max"]

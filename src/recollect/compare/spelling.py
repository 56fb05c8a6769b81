"""Figures of a comparison as a person reads them: undefined is a word, never is '> N'."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from recollect.compare.measures import Reach
from recollect.compare.statistics import Estimate
from recollect.telemetry.spelling import seconds as spell_seconds

Spell: TypeAlias = Callable[[float], str]

UNDEFINED = "undefined"
ENOUGH = 5  # seeds; with fewer, an interval is an indication at best


def count(value: float) -> str:
    """Spell a number of rollouts."""
    return "never" if math.isinf(value) else f"{value:,.0f}"


def duration(value: float) -> str:
    """Spell seconds."""
    return "never" if math.isinf(value) else spell_seconds(value)


def share(value: float) -> str:
    """Spell a success rate in percent."""
    return f"{100 * value:.1f}%"


def points(value: float) -> str:
    """Spell a difference of success rates."""
    return f"{100 * value:+.1f}"


def times(value: float) -> str:
    """Spell a ratio."""
    return "∞" if math.isinf(value) else f"{value:.2f}"


def reach(value: Reach, spell: Spell) -> str:
    """Spell what a run needed; '> N' where it never got there within N."""
    return f"> {spell(value.within)}" if value.value is None else spell(value.value)


def estimate(value: Estimate, spell: Spell) -> str:
    """Spell a figure with its interval in brackets."""
    if value.point is None and value.undefined == 1.0:
        return UNDEFINED
    middle = UNDEFINED if value.point is None else spell(value.point)
    return f"{middle} {interval(value, spell)}".rstrip()


def interval(value: Estimate, spell: Spell) -> str:
    """Spell an interval; nothing where one seed gives none."""
    if value.low is None or value.high is None:
        return ""
    return f"[{spell(value.low)}, {spell(value.high)}]"


def optional(value: float | None, spell: Spell) -> str:
    """Spell what may not be known."""
    return "-" if value is None else spell(value)


def few_seeds(number: int) -> str:
    """Warn of so few seeds; nothing where there are enough."""
    if number >= ENOUGH:
        return ""
    noun = "seed shows" if number == 1 else "seeds show"
    return f"{number} {noun} too little to conclude anything; use {ENOUGH} or more."


def seeds(numbers: Sequence[int]) -> str:
    """Spell seeds: '0-4', or '3, 7'."""
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ", ".join(str(number) for number in numbers)

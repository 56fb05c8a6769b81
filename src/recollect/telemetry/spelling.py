"""Numbers as a person reads them on a line: short, aligned in meaning, never lying."""

from __future__ import annotations

import math


def decimal(value: float, places: int) -> str:
    """Spell a number with fixed places; tiny and huge ones in powers of ten, NaN as nan."""
    if not math.isfinite(value):
        return str(value)
    if value != 0 and (abs(value) < 0.5 * 10**-places or abs(value) >= 1e6):
        return f"{value:.1e}"
    return f"{value:.{places}f}"


def whole(value: float) -> str:
    """Spell a count: 1,234."""
    return f"{value:,.0f}" if math.isfinite(value) else str(value)


def percent(share: float | None, unknown: str = "-") -> str:
    """Spell a share: 45.6%; a dash, or other words, for what is not known."""
    return unknown if share is None or not math.isfinite(share) else f"{100 * share:.1f}%"


def seconds(value: float) -> str:
    """Spell a duration: 1.2 s, 45 s, 0:12:05."""
    if not math.isfinite(value):
        return "-"
    if value < 9.95:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 99.5 else hours(value)


def hours(value: float | None) -> str:
    """Spell a duration as h:mm:ss; dashes for what is not known."""
    if value is None or not math.isfinite(value):
        return "-:--:--"
    whole_seconds = round(value)
    minutes, rest = divmod(whole_seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def forecast(value: float) -> str:
    """Spell a duration that is an estimate, in the unit a person would use: 45 s, 36 min, 2.5 h."""
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"

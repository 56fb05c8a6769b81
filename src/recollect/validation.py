"""Checks that records make on themselves; each raises InvalidRecord naming the field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from recollect.canonical import Json, is_plain_json, is_text
from recollect.errors import InvalidRecord

# Ids name records in commands, files and URLs; they never become paths.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+=@-]{0,127}\Z")


def check_id(field_name: str, value: str) -> None:
    """Refuse an id that is not 1 to 128 characters of letters, digits and ._:+=@-."""
    if not isinstance(value, str) or not _ID.match(value):
        shown = repr(value)[:60]
        raise InvalidRecord(field_name, f"{shown} is not an id (1-128 letters, digits, ._:+=@-)")


def check_text(field_name: str, value: str) -> None:
    """Refuse what is not a string or cannot be written as UTF-8."""
    if not isinstance(value, str):
        raise InvalidRecord(field_name, f"expected text, got {type(value).__name__}")
    if not is_text(value):
        raise InvalidRecord(field_name, "holds a lone surrogate, which is not valid text")


def check_count(field_name: str, value: int, most: int = 2**31 - 1) -> None:
    """Refuse what is not a whole number from 0 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRecord(field_name, f"expected a whole number, got {type(value).__name__}")
    if not 0 <= value <= most:
        raise InvalidRecord(field_name, f"{value} is outside 0..{most}")


def check_finite(field_name: str, value: float) -> None:
    """Refuse NaN, infinities and what is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRecord(field_name, f"expected a number, got {type(value).__name__}")
    try:
        finite = math.isfinite(value)
    except OverflowError:
        raise InvalidRecord(field_name, "does not fit a 64-bit float") from None
    if not finite:
        raise InvalidRecord(field_name, f"{value} is not finite")


def check_json(field_name: str, value: Mapping[str, Json]) -> None:
    """Refuse a mapping that would not survive a JSON round trip."""
    if not isinstance(value, Mapping) or not is_plain_json(dict(value)):
        raise InvalidRecord(field_name, "must be a JSON object of finite numbers and valid text")


def check_step(field_name: str, run: str | None, step: int | None) -> None:
    """Refuse a run without a step or a step without a run; both or neither is fine."""
    if (run is None) != (step is None):
        raise InvalidRecord(field_name, "run and step go together: give both or neither")
    if run is not None and step is not None:
        check_id(f"{field_name}.run", run)
        check_count(f"{field_name}.step", step)

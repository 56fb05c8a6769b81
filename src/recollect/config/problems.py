"""What pydantic found wrong, in our words: where it was written, what it is, what to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from recollect.canonical import Json
from recollect.config.schema.section import CONFLICT
from recollect.config.settings import all_settings
from recollect.config.suggestions import suggest_choice
from recollect.config.tree import DEFAULT, Source, shortened
from recollect.redaction import redact

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a mapping",
}
_LIMITS = {
    "greater_than": ("gt", "must be above {}"),
    "greater_than_equal": ("ge", "must be at least {}"),
    "less_than": ("lt", "must be below {}"),
    "less_than_equal": ("le", "must be at most {}"),
}


def problems_of(
    error: ValidationError, sources: Mapping[tuple[str, ...], Source]
) -> list[tuple[str, str]]:
    """Turn each finding into (what, hint). `sources` says where the given settings were written."""
    findings = error.errors(include_url=False)
    places = [found["loc"] for found in findings]
    return [_problem(found, sources) for found in findings if not _follows(found, places)]


def _follows(found: ErrorDetails, places: Sequence[tuple[str | int, ...]]) -> bool:
    """Tell whether a list counts as empty only because what stands in it was refused."""
    own = found["loc"]
    if found["type"] != "too_short":
        return False
    return any(len(place) > len(own) and place[: len(own)] == own for place in places)


def _problem(found: ErrorDetails, sources: Mapping[tuple[str, ...], Source]) -> tuple[str, str]:
    context: dict[str, Any] = found.get("ctx", {})
    if found["type"] == CONFLICT:
        places = [source_of(tuple(key.split(".")), sources) for key in context["keys"]]
        return f"{_where(places)}: {context['what']}.", context["change"]
    path = tuple(part for part in found["loc"] if isinstance(part, str))
    key, place = _key(found["loc"]), source_of(path, sources)
    what, hint = _words(found["type"], path, found["input"], context, found["msg"])
    return f"{place.text}: {key} {what}.", hint


def source_of(path: Sequence[str], sources: Mapping[tuple[str, ...], Source]) -> Source:
    """Where a setting, or the nearest thing above it, was written."""
    for end in range(len(path), 0, -1):
        if tuple(path[:end]) in sources:
            return sources[tuple(path[:end])]
    return DEFAULT


def _where(places: Sequence[Source]) -> str:
    """Name the places that people wrote; defaults only where there is nothing else."""
    written = [place.text for place in places if place.kind != "default"]
    return " and ".join(dict.fromkeys(written)) or DEFAULT.text


def _key(location: Sequence[str | int]) -> str:
    """Spell a location as `environment.levels[2]`."""
    return "".join(f".{p}" if isinstance(p, str) else f"[{p}]" for p in location).lstrip(".")


def _words(
    kind: str, path: tuple[str, ...], given: Json, context: Mapping[str, Any], message: str
) -> tuple[str, str]:
    key = ".".join(path)
    shown = shortened(redact(repr(given)))
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {shown}", _type_hint(key, kind, given)
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        return f"{words.format(f'{context[name]:g}')}, not {shown}", ""
    if kind == "literal_error":
        choices = ", ".join(all_settings()[key].choices)
        return f"must be one of {choices}, not {shown}", suggest_choice(key, given)
    if kind in ("string_too_short", "too_short"):
        return "must not be empty", ""
    if kind == "string_pattern_mismatch":
        return f"cannot be {shown}", all_settings()[key].description
    return message[:1].lower() + message[1:], ""


def _type_hint(key: str, kind: str, given: Json) -> str:
    """What to write instead of a value of the wrong type, where that can be told."""
    setting = all_settings().get(key)
    if given is None:
        return "This setting cannot be none. Remove the line to get the default."
    if kind == "int_type" and isinstance(given, float) and given.is_integer():
        return f"Write {int(given)}."
    if kind == "bool_type" and isinstance(given, str | int):
        return "Write true or false."
    if kind == "string_type" and not isinstance(given, list | dict):
        return "Put it in quotes to make it text."
    if kind == "tuple_type" and not isinstance(given, dict):
        return f"Write it in brackets: [{given}]."
    return f"It accepts: {setting.kind}." if setting else ""

"""One spelling for every JSON text and digest that we compare, hash or store."""

from __future__ import annotations

import hashlib
import json
import math
from typing import NoReturn, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_MAX_DEPTH = 100  # the JSON parser gives up near Python's recursion limit, far above
_MAX_BITS = 8192  # Python prints integers of at most 4,300 digits, about 14,000 bits

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: object) -> str:
    """Serialise to the one text we use: sorted keys, no spaces, UTF-8 as is, NaN refused."""
    return _ENCODER.encode(value)


def strict_json(text: str | bytes) -> Json:
    """Parse JSON, refusing the non-standard NaN and Infinity that Python would let through."""
    try:
        parsed: Json = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def digest(*parts: str | int) -> str:
    """Hash parts to 32 hex digits; parts are framed by JSON, so ("a", "bc") ≠ ("ab", "c")."""
    text = canonical_json(list(parts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def is_plain_json(value: object, depth: int = _MAX_DEPTH) -> bool:
    """Tell whether a value survives a JSON round trip unchanged (no tuples, no NaN, str keys).

    Nesting beyond `depth` and integers that Python would not print are refused as well.
    """
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str):
        return is_text(value)
    if isinstance(value, int):
        return value.bit_length() <= _MAX_BITS
    if isinstance(value, float):
        return math.isfinite(value)
    if depth == 0:
        return False
    if isinstance(value, list):
        return all(is_plain_json(item, depth - 1) for item in value)
    if isinstance(value, dict):
        return all(
            isinstance(k, str) and is_text(k) and is_plain_json(v, depth - 1)
            for k, v in value.items()
        )
    return False


def is_text(value: str) -> bool:
    """Tell whether a string can be written as UTF-8 (it holds no lone surrogate)."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

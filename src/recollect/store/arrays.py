"""The arrays of a trajectory as lists that JSON can hold, exactly, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from recollect.canonical import Json
from recollect.errors import InvalidRecord
from recollect.store.fields import kind_of, shorten
from recollect.trajectory import Floats, Mask, Tokens

_MAX_TOKEN = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays of a trajectory, as in `Trajectory`."""

    tokens: Tokens
    sampled: Mask
    logprobs: Floats | None
    entropies: Floats | None


def floats_to_list(values: Floats) -> list[float]:
    """Write float32 numbers with nine digits: short to read, and enough to get each one back.

    Nine significant digits are off by 5e-9 of the number at most, a float32 and its
    neighbour differ by 6e-8 of it, so reading finds the same float32 again.
    """
    return [float(f"{value:.9g}") for value in values.tolist()]


def floats_from(field: str, values: list[Any]) -> Floats:
    """Read numbers as float32. Infinities get through here; records refuse them."""
    for value in set(map(type, values)) - {int, float}:
        raise InvalidRecord(field, f"expected numbers, found {_name(values, value)}")
    try:
        with np.errstate(over="ignore"):
            return np.array(values, dtype=np.float64).astype(np.float32)
    except OverflowError:
        raise InvalidRecord(field, "holds a number that is too large") from None


def tokens_from(field: str, values: list[Any]) -> Tokens:
    """Read token ids."""
    for value in set(map(type, values)) - {int}:
        raise InvalidRecord(field, f"expected whole numbers, found {_name(values, value)}")
    if values and not (min(values) >= 0 and max(values) <= _MAX_TOKEN):
        raise InvalidRecord(field, f"holds a token id outside 0..{_MAX_TOKEN}")
    return np.array(values, dtype=np.int32)


def _name(values: list[Any], wrong: type) -> str:
    found = next(value for value in values if type(value) is wrong)
    return "a fraction" if wrong is float else kind_of(found)


def spans_to_list(mask: Mask) -> list[Json]:
    """Write a mask as the spans [start, end) in which it is set, in order."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return [list(map(int, span)) for span in edges.reshape(-1, 2)]


def mask_from(field: str, spans: list[Any], size: int) -> Mask:
    """Read a mask of `size` entries from spans in order."""
    mask = np.zeros(size, dtype=np.bool_)
    position = 0
    for span in spans:
        if not isinstance(span, list) or [type(edge) for edge in span] != [int, int]:
            raise InvalidRecord(field, "expected spans [start, end] of whole numbers")
        start, end = span
        if not position <= start < end <= size:
            shown = f"[{shorten(start)}, {shorten(end)}]"
            problem = f"the span {shown} is empty, out of order or beyond {size}"
            raise InvalidRecord(field, problem)
        mask[start:end] = True
        position = end
    return mask

"""Taking apart a JSON object that somebody else wrote, member by member."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

from recollect.errors import InvalidRecord

E = TypeVar("E", bound=Enum)
_MISSING = object()
_SHOWN = 60


class Fields:
    """One JSON object; every complaint is an InvalidRecord that names the member with its path.

    Members are handed out as they are: the records check their own types. Those that nobody
    took are left over, for `refuse_rest` or for the caller to keep.
    """

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, dict):
            raise InvalidRecord(path or "line", f"expected an object, got {kind_of(value)}")
        self._rest: dict[str, Any] = dict(value)
        self._path = path
        self._asked: list[str] = []

    def name(self, member: str) -> str:
        """Name a member with its path, fit to be shown."""
        shown = member if member.isidentifier() and len(member) <= _SHOWN else shorten(member)
        return f"{self._path}.{shown}" if self._path else shown

    def item(self, member: str, index: int) -> str:
        """Name an item of an array member with its path."""
        return f"{self.name(member)}[{index}]"

    def has(self, member: str) -> bool:
        """Tell whether a member is there, not null, and nobody took it yet."""
        return self._rest.get(member) is not None

    def take(self, member: str, default: Any = _MISSING) -> Any:
        """Hand out a member; null counts as absent, and absent without a default is refused."""
        self._asked.append(member)
        value = self._rest.pop(member, None)
        if value is not None:
            return value
        if default is _MISSING:
            raise InvalidRecord(self.name(member), "is missing")
        return default

    def number(self, member: str, default: float | None = None) -> float:
        """Hand out a finite number as a float."""
        value = self.take(member, _MISSING if default is None else default)
        return to_number(self.name(member), value)

    def items(self, member: str, default: Any = _MISSING, most: int | None = None) -> list[Any]:
        """Hand out an array, of at most `most` items."""
        value = self.take(member, default)
        if not isinstance(value, list):
            raise InvalidRecord(self.name(member), f"expected an array, got {kind_of(value)}")
        if most is not None and len(value) > most:
            problem = f"has {len(value):,} items; the limit is {most:,}"
            raise InvalidRecord(self.name(member), problem)
        return value

    def optional_items(self, member: str) -> list[Any] | None:
        """Hand out an array, None where there is none."""
        return self.items(member) if self.has(member) else self.take(member, None)

    def choice(self, member: str, kinds: type[E], default: E | None = None) -> E:
        """Hand out one of the values of an enumeration."""
        value = self.take(member, _MISSING if default is None else default.value)
        known = {kind.value: kind for kind in kinds}
        if not isinstance(value, str) or value not in known:
            problem = f"{shorten(value)} is not one of {', '.join(known)}"
            raise InvalidRecord(self.name(member), problem)
        return known[value]

    @contextmanager
    def located(self) -> Iterator[None]:
        """Name this object's path in what a record says about itself when it is made inside."""
        try:
            yield
        except InvalidRecord as error:
            member = error.field.rpartition(".")[2]
            raise InvalidRecord(self.name(member), error.problem) from None

    def rest(self) -> dict[str, Any]:
        """Return the members that nobody took, without those that are null."""
        return {member: value for member, value in self._rest.items() if value is not None}

    def refuse_rest(self) -> None:
        """Refuse members that nobody took, naming the nearest one that exists."""
        for member in self._rest:
            hint = nearest(member, self._asked)
            guess = f"; did you mean {hint!r}?" if hint else ""
            raise InvalidRecord(self.name(member), f"is not a known key{guess}")


def nearest(given: str, known: Collection[str]) -> str:
    """Return the known name most like the given one, or nothing."""
    found = difflib.get_close_matches(given[:_SHOWN], known, n=1, cutoff=0.75)
    return found[0] if found else ""


def to_number(field: str, value: object) -> float:
    """Turn a JSON number into a float; refuse what is none, or does not fit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRecord(field, f"expected a number, got {kind_of(value)}")
    try:
        return float(value)
    except OverflowError:
        raise InvalidRecord(field, "is too large for a number") from None


def kind_of(value: object) -> str:
    """Name the JSON type of a value, for messages."""
    names = {dict: "an object", list: "an array", str: "text", bool: "true or false"}
    if value is None:
        return "null"
    return names.get(type(value), "a number" if isinstance(value, int | float) else "nothing known")


def shorten(value: object) -> str:
    """Show a value in a message: escaped, and never long."""
    if not isinstance(value, str | int | float):
        return kind_of(value)
    try:
        text = repr(value[: _SHOWN + 1] if isinstance(value, str) else value)
    except ValueError:  # an integer with too many digits to print
        return "a number"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"

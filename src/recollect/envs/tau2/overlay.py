"""A table of a database that an attempt may write to, without copying it first."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any


class Pen:
    """Whether the attempt is writing just now. While it is not, records are shared, not copied."""

    __slots__ = ("down",)

    def __init__(self) -> None:
        self.down = False


class Overlay(MutableMapping[str, Any]):
    """Records by key, over a base that is never changed.

    While the pen is down, every record that is looked at is copied first, whether by key or on the
    way through all of them, because tools change records in place. While it is up, the base's own
    are given: tools that say they only read are trusted with them, as tau2's replay trusts them.
    `touched` names the records that may differ from the base's.
    """

    __slots__ = ("_base", "_gone", "_own", "_pen")

    def __init__(self, base: Mapping[str, Any], pen: Pen) -> None:
        self._base = base
        self._pen = pen
        self._own: dict[str, Any] = {}
        self._gone: set[str] = set()  # keys whose place in the base is not theirs any more

    @property
    def touched(self) -> frozenset[str]:
        """Keys of records that were copied, added or removed."""
        return frozenset(self._own) | self._gone

    def __getitem__(self, key: str) -> Any:
        if key in self._own:
            return self._own[key]
        if key in self._gone:
            raise KeyError(key)
        record = self._base[key]
        if self._pen.down:
            record = self._own[key] = copy.deepcopy(record)
        return record

    def __setitem__(self, key: str, record: Any) -> None:
        self._own[key] = record

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._own.pop(key, None)
        if key in self._base:
            self._gone.add(key)

    def __contains__(self, key: object) -> bool:
        return key in self._own or (key in self._base and key not in self._gone)

    def __iter__(self) -> Iterator[str]:
        # The order that a dictionary would have: what was removed and put back comes last.
        for key in self._base:
            if key not in self._gone:
                yield key
        for key in list(self._own):
            if key not in self._base or key in self._gone:
                yield key

    def __len__(self) -> int:
        return sum(1 for _ in self)

"""Identifiers that tau2's tools draw by chance, made to repeat."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from recollect.canonical import digest


class Counter:
    """Numbers the identifiers of one attempt."""

    __slots__ = ("number",)

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def next(self) -> uuid.UUID:
        """Make the next identifier: the same in every attempt that has asked as often."""
        self.number += 1
        return uuid.UUID(digest("tau2", "identifier", self.number)[:32])


_current: ContextVar[Counter | None] = ContextVar("recollect_tau2_counter", default=None)


class Identifiers:
    """Stands where tau2's tools look for the module `uuid`.

    Inside `counting` it numbers identifiers; outside, for whoever else uses tau2 in this process,
    it is the module's own chance.
    """

    def uuid4(self) -> uuid.UUID:
        """Give an identifier."""
        counter = _current.get()
        return uuid.uuid4() if counter is None else counter.next()


@contextmanager
def counting(counter: Counter) -> Iterator[None]:
    """Let tools number their identifiers with this counter."""
    token = _current.set(counter)
    try:
        yield
    finally:
        _current.reset(token)

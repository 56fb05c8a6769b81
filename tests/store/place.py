"""Where the conformance suite finds a store."""

from __future__ import annotations

from typing import Protocol

from factories import FakeRun
from recollect.store.base import Store, StoreReader
from recollect.store.records import Query

ANY = Query(status=None)  # whatever its status


class Place(Protocol):
    """One store: opens its writer and any number of readers."""

    def writer(self) -> Store:
        """Open for writing, making the store on first use."""

    def reader(self) -> StoreReader:
        """Open for reading."""


def write_steps(store: Store, run: FakeRun, steps: int, first: int = 0, variant: int = 0) -> None:
    """Commit the set-up of a fake run and some of its steps."""
    store.commit(run.setup())
    for step in range(first, steps):
        store.commit(run.step(step, variant))

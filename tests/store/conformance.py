"""The promises of `recollect.store.base.Store` as tests that any implementation can be run through.

Subclass `StoreConformance` in a test module and give it a fixture `place`: something that opens
writers and readers of one new, empty store (see `Place`, and test_sqlite.py for an example).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from recollect.store.base import Store, StoreReader
from store.conformance_ledger import LedgerPromises
from store.conformance_reading import ReadingPromises
from store.conformance_removal import RemovalPromises
from store.conformance_writing import WritingPromises
from store.place import Place


class StoreConformance(WritingPromises, ReadingPromises, LedgerPromises, RemovalPromises):
    """Everything that a store promises."""

    @pytest.fixture
    def store(self, place: Place) -> Iterator[Store]:
        """The one writer."""
        store = place.writer()
        yield store
        store.close()

    @pytest.fixture
    def reader(self, place: Place, store: Store) -> Iterator[StoreReader]:
        """A reader beside the writer, as another process would have it."""
        reader = place.reader()
        yield reader
        reader.close()

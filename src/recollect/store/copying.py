"""Copying a whole store, between SQLite and PostgreSQL or from one place to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import SameStore, StoreCopyDiffers, StoreNotEmpty, StoreReadOnly
from recollect.store import open_reader, open_store
from recollect.store.address import Place, is_same, place_of
from recollect.store.lock import WriterLock
from recollect.store.records import Finding
from recollect.store.tables.reader import TableReader
from recollect.store.tables.writer import TableStore


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What was copied, and what `verify` says of the copy: nothing, if the source was sound."""

    source: str
    target: str
    rows: dict[str, int]
    findings: tuple[Finding, ...]

    @property
    def trajectories(self) -> int:
        """How many trajectories there are, live and fenced."""
        return self.rows["trajectories"]


def copy_store(source: Place | str, target: Place | str) -> CopyReport:
    """Copy everything in a store to a place where there is none, and check the copy.

    - The copy is exact: ids, numbers, order of arrival, fences, times and checksums.
    - It appears whole or not at all: one transaction. StoreNotEmpty if there is something,
      SameStore if that is the source itself.
    - Afterwards every row is read back and compared (StoreCopyDiffers), then verified.
    - Writers of a SQLite source are kept out meanwhile (StoreLocked if there is one); a
      PostgreSQL source is read as of one moment while others write.
    """
    origin, place = place_of(source), place_of(target)
    if is_same(origin, place):
        raise SameStore(place)
    with _at_rest(origin), open_reader(source) as reader, open_store(target) as store:
        assert isinstance(reader, TableReader)
        assert isinstance(store, TableStore)
        if not store.is_empty():
            raise StoreNotEmpty(store.path)
        read = store.take_over(reader)
        written = store.sums()
        for table, expected in read.items():
            if written[table] != expected:
                raise StoreCopyDiffers(store.path, table)
        rows = {table: found.rows for table, found in written.items()}
        return CopyReport(str(reader.path), str(store.path), rows, tuple(store.verify()))


@contextmanager
def _at_rest(place: Place) -> Iterator[None]:
    """Keep writers of a file out: with a rollback journal a long read would stop a run."""
    if not isinstance(place, Path) or not place.is_file():
        yield
        return
    try:
        lock = WriterLock(place)
    except StoreReadOnly:  # then nobody else writes it either
        yield
        return
    try:
        yield
    finally:
        lock.withdraw()

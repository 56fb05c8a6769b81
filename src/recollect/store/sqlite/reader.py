"""Reading a SQLite store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recollect.store.records import Finding, Stats
from recollect.store.sqlite import checks, person
from recollect.store.sqlite.connection import connect_reader
from recollect.store.sqlite.database import SqliteDatabase
from recollect.store.tables import statistics, verify
from recollect.store.tables.migrations import check_schema
from recollect.store.tables.reader import TableReader


class SqliteReader(TableReader):
    """A reader of one store file; promises as in `recollect.store.base.StoreReader`."""

    _connection: SqliteDatabase

    def __init__(self, path: Path | str) -> None:
        super().__init__(connect_reader(Path(path)))
        try:
            check_schema(self._connection)
        except BaseException:
            self._connection.close()
            raise

    @property
    def path(self) -> Path:
        """The store's file."""
        return self._connection.place

    def stats(self) -> Stats:
        """Totals."""
        with self._connection.reading():
            # The file only tells WAL from a rollback journal; of those each connection has its
            # own idea, and a reader's is SQLite's default. Our writers use TRUNCATE or refuse.
            (mode,) = self._connection.execute("PRAGMA journal_mode").fetchone()
            journal = "wal" if mode == "wal" else "truncate"
            holder = statistics.Holder(journal, self.path.stat().st_size)
            return statistics.stats(self._connection, holder)

    def sql(self, query: str, limit: int = 1000) -> tuple[list[str], list[tuple[object, ...]]]:
        """Run one read-only query of a person; BadQuery if it is malformed or would write."""
        return person.run_sql(self.path, query, limit)

    def verify(self) -> Iterator[Finding]:
        """Check every checksum and every derived value; yields nothing when all is well."""
        return verify.verify(self._connection, checks.CHECKS)

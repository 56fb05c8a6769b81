"""Reading a PostgreSQL store."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.store.address import RETRY_SECONDS, PostgresAddress
from recollect.store.postgres import checks, person
from recollect.store.postgres.connection import connect_reader
from recollect.store.postgres.database import PostgresDatabase
from recollect.store.records import Finding, Stats
from recollect.store.tables import statistics, verify
from recollect.store.tables.migrations import check_schema
from recollect.store.tables.reader import TableReader

_BYTES = (
    "SELECT CAST(sum(pg_total_relation_size(c.oid)) AS BIGINT) FROM pg_class c "
    "WHERE c.relnamespace = to_regnamespace(?) AND c.relkind = 'r'"
)


class PostgresReader(TableReader):
    """A reader of one store; promises as in `recollect.store.base.StoreReader`.

    A lost connection is made again, while `retry_seconds` last.
    """

    _connection: PostgresDatabase

    def __init__(self, address: PostgresAddress, *, retry_seconds: float = RETRY_SECONDS) -> None:
        super().__init__(connect_reader(address, retry_seconds))
        try:
            with self._connection.translated():
                check_schema(self._connection)
        except BaseException:
            self._connection.close()
            raise

    @property
    def path(self) -> PostgresAddress:
        """The store's address."""
        return self._connection.place

    def stats(self) -> Stats:
        """Totals."""
        with self._connection.reading():
            (version,) = self._connection.execute("SHOW server_version").fetchall()[0]
            (size,) = self._connection.execute(_BYTES, [self.path.schema]).fetchall()[0]
            holder = statistics.Holder(f"PostgreSQL {str(version).split()[0]}", int(size))
            return statistics.stats(self._connection, holder)

    def sql(self, query: str, limit: int = 1000) -> tuple[list[str], list[tuple[object, ...]]]:
        """Run one read-only query of a person; BadQuery if it is malformed or would write."""
        return person.run_sql(self.path, query, limit)

    def verify(self) -> Iterator[Finding]:
        """Check every checksum and every derived value; yields nothing when all is well."""
        with self._connection.translated():
            yield from verify.verify(self._connection, checks.CHECKS)

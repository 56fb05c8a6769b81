"""A schema of a PostgreSQL database as a `Database`; a lost connection is made again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.rows import TupleRow

from recollect.errors import StoreFailed, StoreUnreachable
from recollect.store.address import PostgresAddress
from recollect.store.postgres import own
from recollect.store.postgres.failure import explain, is_gone, translate
from recollect.store.postgres.link import connect, lock_key
from recollect.store.postgres.patience import Patience
from recollect.store.postgres.spelling import bound, with_places, with_types
from recollect.store.tables.readable import readable
from recollect.store.tables.schema import CHECKED

T = TypeVar("T")
_NUMBERED = {**{table.name: "number" for table in CHECKED}, "trajectories": "seq"}


class PostgresDatabase:
    """A connection to one schema; promises as in `recollect.store.tables.database.Database`.

    Outside of a transaction a statement is tried again on a new connection while `retry_seconds`
    last; inside one, that is up to whoever opened it. `sessions` counts the connections so far.
    """

    SAME = "IS NOT DISTINCT FROM"
    EACH = "json_array_elements_text(CAST(? AS json)) AS listed(value)"
    # Not a lost connection: what cannot be reached is not damaged.
    ERRORS: tuple[type[Exception], ...] = (
        psycopg.DataError,
        psycopg.IntegrityError,
        psycopg.InternalError,
        psycopg.NotSupportedError,
        psycopg.ProgrammingError,
    )

    def __init__(
        self, address: PostgresAddress, retry_seconds: float, read_only: bool = False
    ) -> None:
        self.place = address
        self.retry_seconds = retry_seconds
        self.sessions = 1
        self._read_only = read_only
        self._link = connect(address, read_only, Patience(retry_seconds))
        self._key = lock_key(address.schema)
        self._is_open = False
        self._process = os.getpid()
        self._is_closed = False

    # -- statements -------------------------------------------------------------------------

    def execute(self, sql: str, values: Sequence[object] = ()) -> psycopg.Cursor[TupleRow]:
        """Run one statement."""
        query, bindings = with_places(sql), [bound(value) for value in values]
        return self._again(lambda: self._link.execute(query, bindings, binary=True))

    def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> psycopg.Cursor[TupleRow]:
        """Run one statement for each row of values, without waiting for each answer."""
        cursor = self._link.cursor()
        bindings = ([bound(value) for value in row] for row in rows)
        cursor.executemany(with_places(sql), bindings)
        return cursor

    def define(self, statement: str) -> None:
        """Run one statement of the schema."""
        self.execute(with_types(statement))

    def _again(self, run: Callable[[], T]) -> T:
        """Run something that reads; on a new connection where the old one is lost."""
        self._require_ours()
        if self._is_open:
            return run()
        patience = Patience(self.retry_seconds)
        while True:
            try:
                self.connect_again()
                return run()
            except psycopg.Error as error:
                if not is_gone(error):
                    raise
                self._link.close()
                if not patience.wait():
                    raise StoreUnreachable(self.place, explain(error)) from error

    def connect_again(self) -> None:
        """Make a new connection where the old one is lost; one try."""
        if self._link.closed:
            self._link = connect(self.place, self._read_only)
            self._is_open = False
            self.sessions += 1

    def _require_ours(self) -> None:
        if self._is_closed or self._process != os.getpid():
            raise StoreFailed(self.place, "this handle was closed, or opened by a parent process")

    # -- transactions -----------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._is_open

    def begin(self) -> None:
        """Open a transaction that writes; writers of one store go one after the other."""
        self._require_ours()
        self.connect_again()
        # Not whatever isolation a server or role prefers: what is read after waiting for the lock
        # must be what the writer before us committed, and not what stood there when we came.
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
        self._link.execute(f"{begin}; SELECT pg_advisory_xact_lock({self._key})".encode())
        self._is_open = True

    def commit(self) -> None:
        """Make the transaction durable."""
        self._link.execute("COMMIT")
        self._is_open = False

    def rollback(self) -> None:
        """Undo the transaction; where the connection is lost, the server does that by itself."""
        self._is_open = False
        if self._link.closed or self._link.pgconn.transaction_status == 0:
            return
        try:
            self._link.execute("ROLLBACK")
        except psycopg.Error:
            self._link.close()

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Let all statements inside see the same state of the store."""
        if self._is_open:
            yield
            return
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._is_open = True
        try:
            yield
        finally:
            self.rollback()

    # -- complaints -------------------------------------------------------------------------

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise our error for whatever PostgreSQL raises inside."""
        started = time.monotonic()
        try:
            yield
        except psycopg.Error as error:
            raise translate(self.place, error, time.monotonic() - started) from error

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise our error for whatever reading may raise, too."""
        with self.translated(), readable(self.place):
            yield

    # -- what SQLite has in its file's header -----------------------------------------------

    def schema_number(self) -> int:
        """Read the number of the schema it has, 0 if it has none."""
        if self.execute("SELECT to_regclass(?)", [own.IDENTITY]).fetchone() == (None,):
            return 0
        return int(_only(self.execute(f"SELECT schema FROM {own.IDENTITY}").fetchall()))

    def set_schema_number(self, number: int) -> None:
        """Write that number down; the first time, make the tables it is kept in."""
        if self.execute("SELECT to_regclass(?)", [own.IDENTITY]).fetchone() == (None,):
            for statement in own.DDL:
                self.execute(statement)
        self.execute(f"UPDATE {own.IDENTITY} SET schema = ?", [number])

    def given(self) -> Mapping[str, int]:
        """The largest number ever given to a row, by table."""
        largest = " UNION ALL ".join(
            f"SELECT '{name}' AS name, max({column}) AS number FROM {name}"
            for name, column in _NUMBERED.items()
        )
        sql = (
            "SELECT name, max(number) FROM (SELECT name, number FROM given UNION ALL "
            f"({largest})) AS known WHERE number IS NOT NULL GROUP BY name"
        )
        return dict(self.execute(sql).fetchall())

    def next_number(self, table: str, column: str = "number") -> int:
        """Tell which number the next row of a table gets."""
        sql = (
            f"SELECT greatest((SELECT max({column}) FROM {table}), "
            "(SELECT number FROM given WHERE name = ?), 0) + 1"
        )
        return int(_only(self.execute(sql, [table]).fetchall()))

    def remember_given(self, given: Mapping[str, int]) -> None:
        """Never give these numbers again, though the rows that had them may go."""
        self.executemany(
            "INSERT INTO given VALUES (?, ?) ON CONFLICT (name) DO UPDATE "
            "SET number = greatest(given.number, excluded.number)",
            given.items(),
        )

    def close(self) -> None:
        """Close the connection. Closing twice is fine."""
        self._is_closed = True
        if self._process == os.getpid():
            self._link.close()


def _only(rows: list[tuple[Any, ...]]) -> Any:
    ((value,),) = rows
    return value

"""A SQLite file as a `Database`, and SQLite's complaints in our words."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from recollect.errors import (
    NotAStore,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
)
from recollect.store.tables.readable import readable
from recollect.store.tables.schema import APPLICATION_ID

_SHARED_MEMORY = 65536


class SqliteDatabase(sqlite3.Connection):
    """A connection to one file; promises as in `recollect.store.tables.database.Database`."""

    SAME = "IS"
    EACH = "json_each(?)"
    ERRORS: tuple[type[Exception], ...] = (sqlite3.Error,)

    place = Path(":memory:")  # set by whoever connects

    def define(self, statement: str) -> None:
        """Run one statement of the schema."""
        self.execute(statement)

    def begin(self) -> None:
        """Open a transaction that writes."""
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make the transaction durable."""
        self.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction; a full disk or an I/O error may have done so already."""
        if self.in_transaction:
            self.execute("ROLLBACK")

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Let all statements inside see the same state of the store."""
        if self.in_transaction:
            yield
            return
        self.execute("BEGIN")
        try:
            yield
        finally:
            with suppress(sqlite3.Error):  # damage or an I/O error may have ended it already
                self.execute("ROLLBACK")

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise our error for whatever SQLite raises inside."""
        with translated(self.place):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise our error for whatever reading may raise, too."""
        with reading(self.place):
            yield

    def schema_number(self) -> int:
        """Read the file's schema number."""
        return int(self.execute("PRAGMA user_version").fetchone()[0])

    def set_schema_number(self, number: int) -> None:
        """Write the schema number down, and that the file is ours."""
        self.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.execute(f"PRAGMA user_version = {number}")

    def given(self) -> Mapping[str, int]:
        """The largest number ever given to a row, by table: SQLite keeps count of it."""
        return dict(self.execute("SELECT name, seq FROM sqlite_sequence").fetchall())

    def next_number(self, table: str, column: str = "number") -> int:
        """Tell which number the next row of a table gets.

        Writers name it themselves so that a row's checksum can cover it.
        """
        given = "SELECT seq FROM sqlite_sequence WHERE name = ?"
        sql = f"SELECT max(ifnull(({given}), 0), ifnull((SELECT max({column}) FROM {table}), 0))"
        return int(self.execute(sql, [table]).fetchone()[0]) + 1

    def remember_given(self, given: Mapping[str, int]) -> None:
        """Raise SQLite's own count where it is lower, as it is in a copy of another store."""
        known = self.given()
        for name, number in given.items():
            if name not in known:
                self.execute(
                    "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, number)
                )
            elif known[name] < number:
                self.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", (number, name))


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise our error for whatever SQLite raises inside."""
    started = time.monotonic()
    try:
        yield
    except sqlite3.Error as error:
        raise translate(path, error, time.monotonic() - started) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise our error for whatever reading may raise, from SQLite, a damaged row or bad values."""
    with translated(path), readable(path):
        yield


def translate(path: Path, error: sqlite3.Error, waited: float) -> StoreError:
    """Name a SQLite failure by the class that says what to do about it.

    By message, because Python 3.10 does not expose the error code; the messages are part of
    SQLite's stable interface.
    """
    text = str(error)
    free = _free_bytes(path)
    # Where even the shared memory of a WAL finds no room, SQLite only says "disk I/O error".
    no_room = "disk I/O error" in text and free is not None and free < _SHARED_MEMORY
    if "database or disk is full" in text or no_room:
        return StoreFull(path, free)
    if "database is locked" in text or "database table is locked" in text:
        return StoreBusy(path, round(waited, 1))
    if "readonly" in text or "unable to open" in text:
        return StoreReadOnly(path, text)
    if "not a database" in text:
        return NotAStore(path, "it is not a SQLite file")
    if any(word in text for word in ("malformed", "corrupt", "no such", "Could not decode")):
        return StoreDamaged(path, text)
    return StoreFailed(path, text)


def _free_bytes(path: Path) -> int | None:
    try:
        return shutil.disk_usage(path.parent).free
    except OSError:
        return None

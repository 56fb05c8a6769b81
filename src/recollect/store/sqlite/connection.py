"""Opening a SQLite file as a store, and turning SQLite's complaints into ours."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.errors import (
    NotAStore,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
)
from recollect.store.sqlite.schema import APPLICATION_ID

BUSY_SECONDS = 5.0
_PAGE_SIZE = 16384  # trajectories are large: fewer, larger pages read and commit faster


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise our error for whatever SQLite raises inside."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(path, error) from error


def translate(path: Path, error: sqlite3.Error) -> StoreError:
    """Name a SQLite failure by the class that says what to do about it.

    By message, because Python 3.10 does not expose the error code; the messages are part of
    SQLite's stable interface.
    """
    text = str(error)
    if "database or disk is full" in text:
        return StoreFull(path, _free_bytes(path))
    if "database is locked" in text or "database table is locked" in text:
        return StoreBusy(path, BUSY_SECONDS)
    if "readonly" in text or "unable to open" in text:
        return StoreReadOnly(path, text)
    if "not a database" in text:
        return NotAStore(path, "it is not a SQLite file")
    if "malformed" in text or "corrupt" in text or "no such table" in text:
        return StoreDamaged(path, text)
    return StoreFailed(path, text)


def _free_bytes(path: Path) -> int | None:
    try:
        return shutil.disk_usage(path.parent).free
    except OSError:
        return None


def check_file(path: Path) -> None:
    """Refuse, by looking only, a path that is missing, a folder, or not SQLite at all."""
    if path.is_dir():
        raise NotAStore(path, "it is a folder")
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except FileNotFoundError:
        raise StoreMissing(path) from None
    except OSError as error:
        raise NotAStore(path, f"it cannot be read ({error.strerror})") from error
    if start and start != b"SQLite format 3\0":
        raise NotAStore(path, "it is not a SQLite file")


def is_blank(connection: sqlite3.Connection, path: Path) -> bool:
    """Tell a file without any content from a store; refuse what another program made.

    A writer killed while it made the file leaves a blank one.
    """
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if found != APPLICATION_ID and (found or objects):
        raise NotAStore(path, "another program made this SQLite file")
    return bool(objects == 0)


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open for reading.

    A reader may have to roll back what a killed writer left half-done, which needs write
    access to the file; `query_only` still keeps every statement from writing. Where the
    place is read-only, so is the connection.
    """
    check_file(path)
    with translated(path):
        try:
            connection = _connect(path, "rw")
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError:
            connection = _connect(path, "ro")
            connection.execute("PRAGMA query_only = ON")
        if is_blank(connection, path):
            raise StoreMissing(path)
    return connection


def connect_writer(path: Path, journal: str) -> sqlite3.Connection:
    """Open for writing with full durability, making the file if it is not there.

    The caller holds the writer lock.
    """
    if path.exists():
        check_file(path)
    with translated(path):
        connection = _connect(path, "rwc")
        if is_blank(connection, path):
            connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != journal:
            (mode,) = connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()
        if mode not in (journal, "truncate", "wal"):
            raise StoreFailed(path, f"it cannot use a {journal} journal (got {mode})")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -32768")
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    # check_same_thread off: a store may be closed or read from another thread; callers do not
    # use one store from two threads at once.
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA foreign_keys = OFF")
    return connection

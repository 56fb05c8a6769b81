"""Opening a SQLite file as a store."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

from recollect.errors import NotAStore, StoreFailed, StoreMissing
from recollect.store.sqlite.database import SqliteDatabase, reading
from recollect.store.tables.migrations import refuse_newer
from recollect.store.tables.schema import APPLICATION_ID

_BUSY_SECONDS = 5.0
# With a rollback journal a commit waits for readers: a person's slow query (30 s at most, see
# person.py) must not stop a training run.
_COMMIT_BUSY_SECONDS = 60.0
_DURABLE = ("truncate", "wal")
_PAGE_SIZE = 16384  # trajectories are large: fewer, larger pages read and commit faster


def check_file(path: Path) -> None:
    """Refuse, by looking only, a path that is missing, a folder, or not SQLite at all."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise NotAStore(path, f"it is a {'folder' if stat.S_ISDIR(mode) else 'device'}")
        with path.open("rb") as file:
            start = file.read(16)
    except FileNotFoundError:
        raise StoreMissing(path) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise NotAStore(path, f"it cannot be read ({why})") from error
    if start and start != b"SQLite format 3\0":
        raise NotAStore(path, "it is not a SQLite file")


def is_blank(connection: SqliteDatabase, path: Path) -> bool:
    """Tell a file without any content from a store; refuse what another program made.

    A writer killed while it made the file leaves a blank one.
    """
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if found != APPLICATION_ID and (found or objects):
        raise NotAStore(path, "another program made this SQLite file")
    return bool(objects == 0)


def connect_reader(path: Path) -> SqliteDatabase:
    """Open for reading.

    A reader may have to roll back what a killed writer left half-done, which needs write
    access to the file; `query_only` still keeps every statement from writing. Where the
    place is read-only, so is the connection.
    """
    check_file(path)
    with reading(path):
        try:
            return _checked_reader(path, "rw")
        except sqlite3.OperationalError:
            return _checked_reader(path, "ro&immutable=1" if _is_at_rest(path) else "ro")


def _checked_reader(path: Path, mode: str) -> SqliteDatabase:
    connection = _connect(path, mode)
    try:
        connection.execute("PRAGMA query_only = ON")
        if is_blank(connection, path):
            raise StoreMissing(path)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_at_rest(path: Path) -> bool:
    """Tell whether a file lies on a read-only disk with nothing left to roll back or replay.

    A store in WAL mode can only be read there if SQLite is told that nobody can change it.
    """
    if not hasattr(os, "statvfs") or not os.statvfs(path).f_flag & os.ST_RDONLY:
        return False
    leftovers = (path.with_name(path.name + end) for end in ("-wal", "-journal"))
    return not any(file.exists() and file.stat().st_size for file in leftovers)


def connect_writer(path: Path, journal: str) -> SqliteDatabase:
    """Open for writing with full durability, making the file if it is not there.

    The caller holds the writer lock.
    """
    with reading(path):
        connection = _connect(path, "rwc")
        try:
            _prepare_writer(connection, path, journal)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare_writer(connection: SqliteDatabase, path: Path, journal: str) -> None:
    if journal not in _DURABLE:
        raise StoreFailed(path, f"a {journal} journal would not survive a crash")
    if is_blank(connection, path):
        connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
    refuse_newer(connection)  # before anything is changed, the journal mode included
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != journal:
        (mode,) = connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()
    if mode not in _DURABLE:
        raise StoreFailed(path, f"it cannot use a {journal} journal (got {mode})")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -32768")
    connection.execute(f"PRAGMA busy_timeout = {_COMMIT_BUSY_SECONDS * 1000:.0f}")


def _connect(path: Path, mode: str) -> SqliteDatabase:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    # check_same_thread off: a store may be closed or read from another thread; callers do not
    # use one store from two threads at once.
    connection = sqlite3.connect(
        uri,
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=SqliteDatabase,
    )
    connection.place = path
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA foreign_keys = OFF")
    return connection

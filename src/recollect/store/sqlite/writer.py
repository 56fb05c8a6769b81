"""Writing a SQLite store: one process at a time, under a lock."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from recollect.errors import NotAStore, StoreFailed, StoreMissing, StoreReadOnly, StoreTooNew
from recollect.store.codec import require_zstd
from recollect.store.lock import WriterLock, cannot_write
from recollect.store.sqlite.connection import check_file, connect_writer
from recollect.store.sqlite.database import SqliteDatabase
from recollect.store.sqlite.journal import choose_journal
from recollect.store.sqlite.reader import SqliteReader
from recollect.store.tables.migrations import migrate
from recollect.store.tables.writer import TableStore

_VERSION: tuple[int, int, int] = sqlite3.sqlite_version_info
T = TypeVar("T")


class SqliteStore(TableStore, SqliteReader):
    """The writer of one store file; promises as in `recollect.store.base.Store`.

    Holds the store's lock from construction to `close`. `journal` overrides the journal mode
    that `recollect.store.sqlite.journal` finds safe; `compress` stores frames with zstd.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        compress: bool = False,
        journal: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if compress:
            require_zstd()  # before anything is made, and not with the first rows
        place = Path(path)
        _prepare(place)
        self._lock = WriterLock(place)
        try:
            mode = journal or choose_journal(_VERSION, place.resolve().parent)
            connection = _connect(place, mode)
        except (NotAStore, StoreTooNew):
            self._lock.withdraw()
            raise
        except BaseException:
            self._lock.release()
            raise
        TableStore.__init__(self, connection, compress, clock)

    def close(self) -> None:
        """Release files and locks. Closing twice is fine."""
        super().close()
        self._lock.release()

    def compact(self) -> None:
        """Give the space of removed rows back to the file system (rewrites the file)."""
        self._require_lock()
        with self._connection.translated():
            self._connection.execute("VACUUM")
            # In WAL mode the smaller file is only in the log until then; elsewhere it does nothing.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _write(self, work: Callable[[int], T], repeatable: bool = True) -> T:
        self._require_lock()
        return super()._write(work, repeatable)

    def _require_lock(self) -> None:
        if not self._lock.held:
            raise StoreFailed(self.path, "this handle was closed, or opened by a parent process")


def _prepare(path: Path) -> None:
    """Make the folder if need be; refuse, before a lock file is made, what is no store."""
    try:
        check_file(path)
    except StoreMissing:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(path, error) from error
        return
    # SQLite opens what it may not write for reading; a run should hear of that now.
    if not os.access(path, os.W_OK):
        raise StoreReadOnly(path)


def _connect(path: Path, mode: str) -> SqliteDatabase:
    connection = connect_writer(path, mode)
    try:
        with connection.reading():
            migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection

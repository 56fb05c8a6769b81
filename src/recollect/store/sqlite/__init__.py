"""The SQLite store: one file, one writer, any number of readers."""

from recollect.store.sqlite.reader import SqliteReader
from recollect.store.sqlite.writer import SqliteStore

__all__ = ["SqliteReader", "SqliteStore"]

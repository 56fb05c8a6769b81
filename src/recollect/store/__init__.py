"""The store room: trajectories and their story, kept exactly and durably."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recollect.errors import MissingExtra
from recollect.store.address import RETRY_SECONDS, Place, PostgresAddress, place_of
from recollect.store.base import Store, StoreReader
from recollect.store.sqlite import SqliteReader, SqliteStore
from recollect.store.sqlite.connection import connect_reader
from recollect.store.tables.database import Database

if TYPE_CHECKING:
    from types import ModuleType


def open_store(
    path: Place | str, *, compress: bool = False, retry_seconds: float = RETRY_SECONDS
) -> Store:
    """Open a store for writing, making it if there is none.

    `path` is a file (SQLite) or postgres://user@host/database?schema=name, whose lost connections
    are made again while `retry_seconds` last. Raises StoreLocked, naming the owner, where another
    process is writing a file; a PostgreSQL store has any number of writers.
    """
    place = place_of(path)
    if isinstance(place, PostgresAddress):
        store: Store = _postgres().PostgresStore(
            place, compress=compress, retry_seconds=retry_seconds
        )
        return store
    return SqliteStore(place, compress=compress)


def open_reader(path: Place | str, *, retry_seconds: float = RETRY_SECONDS) -> StoreReader:
    """Open an existing store for reading; works while others write."""
    place = place_of(path)
    if isinstance(place, PostgresAddress):
        reader: StoreReader = _postgres().PostgresReader(place, retry_seconds=retry_seconds)
        return reader
    return SqliteReader(place)


def store_exists(path: Place | str) -> bool:
    """Tell whether a store is there already; a server that cannot be asked is an error."""
    place = place_of(path)
    if isinstance(place, Path):
        return place.is_file()
    exists: bool = _postgres().store_exists(place)
    return exists


def schema_of(path: Place | str) -> int:
    """Read the schema number of a store, whether this version can read the store or not."""
    place = place_of(path)
    if isinstance(place, PostgresAddress):
        connection: Database = _postgres().connect_reader(place, 0)
    else:
        connection = connect_reader(place)
    try:
        with connection.reading():
            return connection.schema_number()
    finally:
        connection.close()


def _postgres() -> ModuleType:
    """Import what needs the driver only when it is needed."""
    try:
        from recollect.store import postgres
    except ImportError as error:
        raise MissingExtra("A PostgreSQL store", "postgres") from error
    return postgres


__all__ = ["open_reader", "open_store", "place_of", "schema_of", "store_exists"]

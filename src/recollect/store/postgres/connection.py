"""Opening a schema of a PostgreSQL database as a store."""

from __future__ import annotations

import psycopg

from recollect.errors import NotAStore, StoreMissing, StoreUnreachable
from recollect.store.address import PostgresAddress
from recollect.store.postgres import own
from recollect.store.postgres.database import PostgresDatabase
from recollect.store.postgres.failure import is_gone
from recollect.store.postgres.patience import Patience
from recollect.store.tables.migrations import migrate
from recollect.store.tables.schema import APPLICATION_ID

_OBJECTS = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace(?)"


def connect_reader(address: PostgresAddress, retry_seconds: float) -> PostgresDatabase:
    """Open for reading; StoreMissing where nobody has made a store yet."""
    database = PostgresDatabase(address, retry_seconds, read_only=True)
    try:
        with database.reading():
            if is_blank(database):
                raise StoreMissing(address)
    except BaseException:
        database.close()
        raise
    return database


def connect_writer(address: PostgresAddress, retry_seconds: float) -> PostgresDatabase:
    """Open for writing, making the schema and its tables if they are not there.

    A connection that is lost meanwhile is made again: what was made is found, the rest is made.
    """
    database = PostgresDatabase(address, retry_seconds)
    patience = Patience(retry_seconds)
    try:
        with database.reading():
            while not _is_made(database):
                if not patience.wait():
                    raise StoreUnreachable(address, "the connection was lost again and again")
    except BaseException:
        database.close()
        raise
    return database


def _is_made(database: PostgresDatabase) -> bool:
    """Make what is missing; False where the connection was lost over it."""
    try:
        if is_blank(database):
            _make_schema(database)
        migrate(database)
    except psycopg.Error as error:
        if not is_gone(error):
            raise
        return False
    return True


def store_exists(address: PostgresAddress) -> bool:
    """Tell whether somebody has made a store there."""
    try:
        connect_reader(address, 0).close()
    except StoreMissing:
        return False
    return True


def is_blank(database: PostgresDatabase) -> bool:
    """Tell a schema without any content from a store; refuse what another program made."""
    schema = database.place.schema
    (found,) = database.execute("SELECT to_regclass(?)", [own.IDENTITY]).fetchall()[0]
    if found is None:
        (objects,) = database.execute(_OBJECTS, [schema]).fetchall()[0]
        if objects:
            raise NotAStore(database.place, f"another program's tables are in schema {schema}")
        return True
    (application,) = database.execute(f"SELECT application FROM {own.IDENTITY}").fetchall()[0]
    if application != APPLICATION_ID:
        raise NotAStore(database.place, f"another program made {own.IDENTITY}")
    return False


def _make_schema(database: PostgresDatabase) -> None:
    database.begin()  # two writers that both find nothing go one after the other
    try:
        database.execute(f"CREATE SCHEMA IF NOT EXISTS {database.place.schema}")
        database.commit()
    except BaseException:
        database.rollback()
        raise

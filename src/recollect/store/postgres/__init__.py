"""The PostgreSQL store: a schema in a database, any number of writers and readers."""

from recollect.store.postgres.connection import connect_reader, store_exists
from recollect.store.postgres.reader import PostgresReader
from recollect.store.postgres.writer import PostgresStore

__all__ = ["PostgresReader", "PostgresStore", "connect_reader", "store_exists"]

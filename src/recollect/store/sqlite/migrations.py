"""Bringing a store to the newest schema: an ordered list, each step applied once.

The schema number is SQLite's `user_version`, moved in the same transaction as the step, so a
kill in the middle leaves the old schema, whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from recollect.errors import StoreDamaged, StoreTooNew, StoreTooOld
from recollect.store.sqlite.schema import APPLICATION_ID, DDL_1, DDL_2, SCHEMA


def _m1_first_schema(connection: sqlite3.Connection) -> None:
    for statement in DDL_1:
        connection.execute(statement)


def _m2_notes_that_learn(connection: sqlite3.Connection) -> None:
    for statement in DDL_2:
        connection.execute(statement)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _m1_first_schema,
    _m2_notes_that_learn,
)
assert len(MIGRATIONS) == SCHEMA


def schema_of(connection: sqlite3.Connection) -> int:
    """Read a file's schema number."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(connection: sqlite3.Connection, path: Path) -> int:
    """Return a file's schema number, refusing one that this code cannot know."""
    found = schema_of(connection)
    if found > SCHEMA:
        raise StoreTooNew(path, found, SCHEMA)
    if found < 0:
        raise StoreDamaged(path, f"its schema number is {found}")
    return found


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse to read a store that is not of the schema this code reads."""
    found = refuse_newer(connection, path)
    if found < SCHEMA:
        raise StoreTooOld(path, found, SCHEMA)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Apply what is missing, one transaction per migration."""
    found = refuse_newer(connection, path)
    for number in range(found + 1, SCHEMA + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            MIGRATIONS[number - 1](connection)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

"""Bringing a store to the newest schema: an ordered list, each step applied once.

The schema number moves in the same transaction as all missing steps, so a kill in the middle leaves
the old schema, whole.
"""

from __future__ import annotations

from collections.abc import Callable

from recollect.errors import StoreDamaged, StoreTooNew, StoreTooOld
from recollect.store.tables.database import Database
from recollect.store.tables.schema import DDL_1, DDL_2, SCHEMA


def _m1_first_schema(connection: Database) -> None:
    for statement in DDL_1:
        connection.define(statement)


def _m2_notes_that_learn(connection: Database) -> None:
    for statement in DDL_2:
        connection.define(statement)


MIGRATIONS: tuple[Callable[[Database], None], ...] = (_m1_first_schema, _m2_notes_that_learn)
assert len(MIGRATIONS) == SCHEMA


def refuse_newer(connection: Database) -> int:
    """Return a store's schema number, refusing one that this code cannot know."""
    found = connection.schema_number()
    if found > SCHEMA:
        raise StoreTooNew(connection.place, found, SCHEMA)
    if found < 0:
        raise StoreDamaged(connection.place, f"its schema number is {found}")
    return found


def check_schema(connection: Database) -> None:
    """Refuse to read a store that is not of the schema this code reads."""
    found = refuse_newer(connection)
    if found < SCHEMA:
        raise StoreTooOld(connection.place, found, SCHEMA)


def migrate(connection: Database) -> None:
    """Apply what is missing, in one transaction: a store that is being made is whole or not there.

    Made a migration at a time, one that was killed in between would be of an old schema, which no
    reader may bring up to date.
    """
    if refuse_newer(connection) == SCHEMA:
        return
    connection.begin()
    try:
        found = connection.schema_number()  # another writer may have been quicker
        for step in MIGRATIONS[found:SCHEMA]:
            step(connection)
        connection.set_schema_number(max(found, SCHEMA))
        connection.commit()
    except BaseException:
        connection.rollback()
        raise

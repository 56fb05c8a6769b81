"""What `verify` looks at in a SQLite file beside the rows: its pages and its schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from recollect.store.lock import is_held_elsewhere
from recollect.store.records import Finding
from recollect.store.sqlite.database import SqliteDatabase
from recollect.store.tables import migrations
from recollect.store.tables.schema import CHECKED


def pages(connection: SqliteDatabase) -> Iterator[Finding]:
    """Let SQLite check its own pages.

    With a rollback journal that holds up commits for as long as it takes. Where another process
    writes so, each table has a moment of its own, and the frames, which are most of a store, have
    none: every one of them is read and checked anyway, in short moments.
    """
    if _may_take_its_time(connection):
        with connection.moment():
            found = list(_pages(connection, "20"))
            yield from (*found, *_length(connection))
        return
    for name in sorted(table.name for table in CHECKED) + ["trajectories", "meta"]:
        with connection.moment():
            yield from list(_pages(connection, f"'{name}'"))


def _may_take_its_time(connection: SqliteDatabase) -> bool:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    return mode == "wal" or connection.in_transaction or not is_held_elsewhere(connection.place)


def _pages(connection: SqliteDatabase, what: str) -> Iterator[Finding]:
    for (problem,) in connection.execute(f"PRAGMA integrity_check({what})"):
        if problem != "ok":
            yield Finding("file", str(problem).replace("\n", " "))


def _length(connection: SqliteDatabase) -> Iterator[Finding]:
    """Look for bytes after the last page that SQLite knows of, which it does not look at.

    While a log waits to be copied into the file, the file may be longer than it will be.
    """
    log = connection.place.with_name(connection.place.name + "-wal")
    if log.exists() and log.stat().st_size:
        return
    (count,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    if connection.place.stat().st_size > count * size:
        yield Finding("file", "is longer than its own header says")


def schema(connection: SqliteDatabase) -> Iterator[Finding]:
    """Compare tables and indexes with those of a new store."""
    fresh = sqlite3.connect(":memory:", factory=SqliteDatabase)
    try:
        for migration in migrations.MIGRATIONS:
            migration(fresh)
        listing = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
        if connection.execute(listing).fetchall() != fresh.execute(listing).fetchall():
            yield Finding("schema", "tables or indexes differ from what this version makes")
    finally:
        fresh.close()


CHECKS = (pages, schema)

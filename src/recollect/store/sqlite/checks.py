"""What `verify` looks at in a SQLite file beside the rows: its pages and its schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from recollect.store.records import Finding
from recollect.store.sqlite.database import SqliteDatabase
from recollect.store.tables import migrations


def pages(connection: SqliteDatabase) -> Iterator[Finding]:
    """Let SQLite check its own pages."""
    for (problem,) in connection.execute("PRAGMA integrity_check(20)"):
        if problem != "ok":
            yield Finding("file", str(problem).replace("\n", " "))
    # SQLite does not look at the bytes after the last page it knows of.
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

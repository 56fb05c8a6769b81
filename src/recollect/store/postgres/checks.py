"""What `verify` looks at in a PostgreSQL store beside the rows: its tables and indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.store.postgres import own
from recollect.store.postgres.database import PostgresDatabase
from recollect.store.postgres.spelling import with_types
from recollect.store.records import Finding
from recollect.store.tables import migrations

_NAME = re.compile(r"CREATE (?:TABLE|VIEW|(?:UNIQUE )?INDEX) (\w+)")
_FOUND = (
    "SELECT c.relname, i.indexrelid IS NULL OR (i.indisvalid AND i.indisready) FROM pg_class c "
    "LEFT JOIN pg_index i ON i.indexrelid = c.oid "
    "WHERE c.relnamespace = to_regnamespace(?) AND c.relkind IN ('r', 'v', 'i')"
)


class _Listing:
    """Writes down the names of what the migrations would make."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def define(self, statement: str) -> None:
        self.names |= set(_NAME.findall(with_types(statement)))


def schema(connection: PostgresDatabase) -> Iterator[Finding]:
    """Look for tables, views and indexes that are missing, foreign or not valid."""
    expected = _Listing()
    for statement in own.DDL:
        expected.define(statement)
    for migration in migrations.MIGRATIONS:
        migration(expected)  # type: ignore[arg-type]
    found: dict[str, bool] = dict(connection.execute(_FOUND, [connection.place.schema]).fetchall())
    for name in sorted(expected.names - set(found)):
        yield Finding("schema", f"{name} is missing")
    for name in sorted(set(found) - expected.names):
        if not name.endswith("_pkey"):
            yield Finding("schema", f"{name} is not ours")
    for name in sorted(name for name, is_sound in found.items() if not is_sound):
        yield Finding("schema", f"index {name} is not valid: REINDEX INDEX {name}")


CHECKS = (schema,)

"""Copying all tables of one store into another, row by row, with sums to compare afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c

from recollect.canonical import canonical_json
from recollect.store.tables.database import Database
from recollect.store.tables.schema import LAYOUT

_BLOCK = {"payloads": 64}  # frames are large
_USUAL = 2048
_FIRST = -(2**63)


@dataclass(frozen=True, slots=True)
class TableSum:
    """How many rows a table has, and a CRC32C over all of their values in order."""

    rows: int
    crc: int


def copy_tables(source: Database, target: Database) -> Mapping[str, TableSum]:
    """Copy every row, in the transaction that the target has open; sums of what was read.

    Numbers, times, fences and checksums stay as they are, so that the copy is the store.
    """
    sums = {}
    for table, columns in LAYOUT.items():
        names, places = ", ".join(columns), ", ".join("?" * len(columns))
        insert = f"INSERT INTO {table} ({names}) VALUES ({places})"
        count = crc = 0
        for block in _blocks(source, table, columns):
            target.executemany(insert, block)
            count, crc = count + len(block), _extended(crc, block)
        sums[table] = TableSum(count, crc)
    for key, value in source.execute("SELECT key, value FROM meta").fetchall():
        target.execute("UPDATE meta SET value = ? WHERE key = ?", [value, key])
    target.remember_given(source.given())
    return sums


def sum_tables(database: Database) -> Mapping[str, TableSum]:
    """Read every row and add it all up."""
    sums = {}
    for table, columns in LAYOUT.items():
        count = crc = 0
        for block in _blocks(database, table, columns):
            count, crc = count + len(block), _extended(crc, block)
        sums[table] = TableSum(count, crc)
    return sums


def is_empty(database: Database) -> bool:
    """Tell whether no table has a row."""
    asked = " OR ".join(f"EXISTS (SELECT 1 FROM {table})" for table in LAYOUT)
    return not database.execute(f"SELECT {asked}").fetchone()[0]


def _blocks(
    database: Database, table: str, columns: Sequence[str]
) -> Iterator[list[tuple[Any, ...]]]:
    """Read a table in order of its key, which is its first column."""
    limit = _BLOCK.get(table, _USUAL)
    sql = (
        f"SELECT {', '.join(columns)} FROM {table} WHERE {columns[0]} > ? "
        f"ORDER BY {columns[0]} LIMIT {limit}"
    )
    last = _FIRST
    while block := database.execute(sql, [last]).fetchall():
        yield block
        last = block[-1][0]


def _extended(crc: int, block: Sequence[Sequence[Any]]) -> int:
    for row in block:
        plain = [_signless(value) for value in row if not isinstance(value, bytes)]
        crc = google_crc32c.extend(crc, canonical_json(plain).encode("utf-8"))
        for value in row:
            if isinstance(value, bytes):
                crc = google_crc32c.extend(crc, value)
    return crc


def _signless(value: Any) -> Any:
    return 0.0 if value == 0 and isinstance(value, float) else value  # SQLite forgets the sign

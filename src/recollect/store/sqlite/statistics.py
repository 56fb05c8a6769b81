"""Totals over a store, for people."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from recollect.store.records import DomainStats, Stats
from recollect.store.sqlite.migrations import schema_of

_DOMAINS = """
    SELECT k.domain, count(DISTINCT t.task), count(*), sum(t.success), avg(t.reward),
           sum(t.tokens), sum(t.bytes), avg(t.uses), max(t.policy_version)
    FROM trajectories t JOIN tasks k ON k.number = t.task
    WHERE t.fence = 0 AND t.status = 'live' GROUP BY k.domain ORDER BY k.domain"""


def _journal(connection: sqlite3.Connection) -> str:
    """Name the journal that the writer uses, whoever asks.

    The file only tells WAL from a rollback journal; of those each connection has its own idea,
    and a reader's is SQLite's default. Our writers use TRUNCATE or refuse to open.
    """
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    return "wal" if mode == "wal" else "truncate"


def stats(connection: sqlite3.Connection, path: Path) -> Stats:
    """Count everything that has a name."""

    def grouped(column: str) -> dict[str, int]:
        sql = f"SELECT {column}, count(*) FROM trajectories WHERE fence = 0 GROUP BY {column}"
        return dict(connection.execute(sql).fetchall())

    def number(sql: str) -> int:
        return int(connection.execute(sql).fetchone()[0] or 0)

    return Stats(
        path=str(path),
        schema=schema_of(connection),
        journal=_journal(connection),
        file_bytes=path.stat().st_size,
        trajectories=number("SELECT count(*) FROM trajectories WHERE fence = 0"),
        payload_bytes=number("SELECT sum(bytes) FROM trajectories WHERE fence = 0"),
        fenced=number("SELECT count(*) FROM trajectories WHERE fence <> 0"),
        by_status=grouped("status"),
        by_origin=grouped("origin"),
        domains=tuple(DomainStats(*row) for row in connection.execute(_DOMAINS)),
        runs=number("SELECT count(*) FROM runs"),
        tasks=number("SELECT count(*) FROM tasks"),
        notes=number("SELECT count(*) FROM notes WHERE fence = 0"),
        draws=number("SELECT count(*) FROM draws WHERE fence = 0"),
        uses=number("SELECT count(*) FROM uses WHERE fence = 0"),
    )

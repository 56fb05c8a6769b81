"""Totals over a store, for people."""

from __future__ import annotations

from typing import NamedTuple

from recollect.store.records import DomainStats, Stats
from recollect.store.tables.database import Database

_DOMAINS = """
    SELECT k.domain, count(DISTINCT t.task), count(*), CAST(sum(t.success) AS BIGINT),
           avg(t.reward), CAST(sum(t.tokens) AS BIGINT), CAST(sum(t.bytes) AS BIGINT),
           avg(t.uses), max(t.policy_version)
    FROM trajectories t JOIN tasks k ON k.number = t.task
    WHERE t.fence = 0 AND t.status = 'live' GROUP BY k.domain ORDER BY k.domain"""


class Holder(NamedTuple):
    """What holds the tables: how it survives a crash, and how much room it takes."""

    journal: str
    file_bytes: int


def stats(connection: Database, holder: Holder) -> Stats:
    """Count everything that has a name."""

    def grouped(column: str) -> dict[str, int]:
        sql = f"SELECT {column}, count(*) FROM trajectories WHERE fence = 0 GROUP BY {column}"
        return dict(connection.execute(sql).fetchall())

    def number(sql: str) -> int:
        return int(connection.execute(sql).fetchone()[0] or 0)

    return Stats(
        path=str(connection.place),
        schema=connection.schema_number(),
        journal=holder.journal,
        file_bytes=holder.file_bytes,
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

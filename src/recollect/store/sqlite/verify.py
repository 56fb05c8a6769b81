"""Checking a store against itself: every checksum, every derived value, SQLite's own pages."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recollect.errors import CorruptFrame, RecollectError
from recollect.store import codec
from recollect.store.records import Finding
from recollect.store.sqlite import arrivals, state
from recollect.store.sqlite.migrations import MIGRATIONS
from recollect.store.sqlite.numbers import Numbers
from recollect.store.sqlite.schema import CHECKED, OF_A_STEP, TRAJECTORY_FACTS, Table, row_crc
from recollect.types import TrajectoryId

_BLOCK = 256  # rows per read: short transactions, bounded memory


def verify(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    """Yield everything that is wrong; damage that stops one check does not stop the others."""
    checks: tuple[Callable[[sqlite3.Connection, Path], Iterator[Finding]], ...] = (
        _pages,
        _schema,
        _counters,
        *(_table_check(table) for table in CHECKED),
        _fences,
        _trajectories,
        _payloads,
    )
    for check in checks:
        try:
            yield from check(connection, path)
        except (sqlite3.Error, RecollectError, ValueError, TypeError, OverflowError) as error:
            name = getattr(check, "__name__", "check").strip("_")
            yield Finding(name, f"cannot be read ({error})")


def _pages(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    for (problem,) in connection.execute("PRAGMA integrity_check(20)"):
        if problem != "ok":
            yield Finding("file", str(problem).replace("\n", " "))
    # SQLite does not look at the bytes after the last page it knows of.
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size > pages * size:
        yield Finding("file", "is longer than its own header says")


def _schema(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    fresh = sqlite3.connect(":memory:")
    try:
        for migration in MIGRATIONS:
            migration(fresh)
        listing = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
        if connection.execute(listing).fetchall() != fresh.execute(listing).fetchall():
            yield Finding("schema", "tables or indexes differ from what this version makes")
    finally:
        fresh.close()


def _counters(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    (newest,) = connection.execute("SELECT ifnull(max(changed), 0) FROM trajectories").fetchone()
    if sorted(meta) != ["change", "reclaimed"]:
        yield Finding("meta", "its keys are not the expected ones")
    elif not max(newest, meta["reclaimed"]) <= meta["change"]:
        yield Finding("meta", "the change number is behind the rows")


def _table_check(table: Table) -> Callable[[sqlite3.Connection, Path], Iterator[Finding]]:
    columns = ", ".join(table.columns)
    query = (
        f"SELECT number, {columns}, at, crc FROM {table.name} "
        f"WHERE number > ? ORDER BY number LIMIT {_BLOCK}"
    )

    def check(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
        for number, *facts, crc in _walk(connection, query):
            if not _is_plain(facts) or row_crc(facts) != crc:
                yield Finding(f"{table.name} row {number}", "its checksum does not match")

    check.__name__ = table.name
    return check


def _fences(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    """A row is fenced exactly by a fence that exists and that its run and step lie behind."""
    for name in (*(table.name for table in OF_A_STEP), "trajectories"):
        wrong = connection.execute(
            f"SELECT count(*) FROM {name} t WHERE t.fence <> 0 AND NOT EXISTS (SELECT 1 FROM "
            "fences f WHERE f.number = t.fence AND f.run = t.run AND t.step > f.after_step)"
        ).fetchone()[0]
        if wrong:
            yield Finding(name, f"{wrong} rows are fenced without a fence")


def _trajectories(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    """Each row must repeat its frame, and its state must follow from the ledger."""
    numbers = Numbers(connection, path)
    facts = ", ".join(f"t.{name}" for name in TRAJECTORY_FACTS)
    query = (
        f"SELECT t.seq, t.fence, t.uses, t.last_use, t.status, t.pinned, t.changed, t.at, "
        f"p.frame, {facts} FROM trajectories t LEFT JOIN payloads p ON p.seq = t.seq "
        f"WHERE t.seq > ? ORDER BY t.seq LIMIT {_BLOCK}"
    )
    for seq, fence, uses, last_use, status, pinned, _, at, frame, *stored in _walk(
        connection, query
    ):
        id_ = TrajectoryId(stored[0]) if isinstance(stored[0], str) else None
        where = f"trajectory {id_ or seq}"
        try:
            problem = _compare(frame, tuple(stored), numbers, at)
        except (CorruptFrame, RecollectError, TypeError, ValueError) as error:
            problem = getattr(error, "problem", str(error))
        if problem:
            yield Finding(where, problem, id_)
        elif not fence and state.derive(connection, str(id_)) != (uses, last_use, status, pinned):
            yield Finding(where, "its uses or status differ from the ledger", id_)


def _compare(frame: bytes | None, stored: tuple[object, ...], numbers: Numbers, at: float) -> str:
    """Say how a metadata row differs from its frame; empty when it does not."""
    if frame is None:
        return "its frame is missing"
    trajectory = codec.decode(frame)
    if arrivals.trajectory_facts(trajectory, frame, numbers, at) != stored:
        return "its metadata differs from its frame"
    return ""


def _payloads(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    (orphans,) = connection.execute(
        "SELECT count(*) FROM payloads p WHERE NOT EXISTS "
        "(SELECT 1 FROM trajectories t WHERE t.seq = p.seq)"
    ).fetchone()
    if orphans:
        yield Finding("payloads", f"{orphans} frames belong to no trajectory")


def _walk(connection: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """Read a table block by block, by its ascending first column."""
    last = -(2**62)
    while True:
        rows = connection.execute(query, [last]).fetchall()
        yield from rows
        if len(rows) < _BLOCK:
            return
        last = rows[-1][0]


def _is_plain(values: list[object]) -> bool:
    return all(value is None or isinstance(value, int | float | str) for value in values)

"""Checking a store against itself: every checksum and every derived value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from recollect.errors import (
    CorruptFrame,
    InvalidRecord,
    MissingExtra,
    RecollectError,
    StoreDamaged,
    StoreUnreachable,
    UnknownId,
)
from recollect.store import codec
from recollect.store.records import Finding
from recollect.store.tables import arrivals, removal, state
from recollect.store.tables.database import Database
from recollect.store.tables.numbers import Numbers
from recollect.store.tables.schema import CHECKED, OF_A_STEP, TRAJECTORY_FACTS, Table, row_crc
from recollect.types import TrajectoryId

_BLOCK = 256  # rows per read: short transactions, bounded memory
_FIRST = -(2**63)
_UNREADABLE = (RecollectError, ValueError, TypeError, ArithmeticError, OSError)
# What keeps us from looking, and says nothing about what is stored.
_NO_FINDING = (MissingExtra, StoreUnreachable)
# What is wrong with the row that is looked at, and with no lock, disk or server.
_ITS_OWN = (
    *(CorruptFrame, InvalidRecord, StoreDamaged, UnknownId),
    *(ValueError, TypeError, ArithmeticError),
)

# Looks at one row and says what is wrong with it, if anything is.
Examine: TypeAlias = Callable[[tuple[Any, ...]], Finding | None]
# Looks at the whole store.
Check: TypeAlias = Callable[[Any], Iterator[Finding]]


def verify(connection: Database, own: Sequence[Check]) -> Iterator[Finding]:
    """Yield everything that is wrong; damage that stops one check does not stop the others.

    `own` are the checks of what holds the tables, done first. No check sees more of the store in
    one moment than it has to, and rows are walked a block at a time: a writer may go on meanwhile
    without being taken for damage, and is not held up for long. MissingExtra where a frame cannot
    be read for want of a package.
    """
    for check in (*own, _counters, _fences):
        try:
            yield from list(check(connection))
        except _NO_FINDING:
            raise
        except _unreadable(connection) as error:
            yield Finding(check.__name__.strip("_"), f"cannot be read ({error})")
    yield from _walk(connection, "payloads", *_payloads())
    for table in CHECKED:
        yield from _walk(connection, table.name, *_checksums(table))
    yield from _walk(connection, "trajectories", *_frames(connection))


def _unreadable(connection: Database) -> tuple[type[Exception], ...]:
    return (*connection.ERRORS, *_UNREADABLE)


def _counters(connection: Database) -> Iterator[Finding]:
    with connection.moment():
        meta: dict[str, int] = dict(connection.execute("SELECT key, value FROM meta"))
        newest = connection.execute("SELECT coalesce(max(changed), 0) FROM trajectories").fetchone()
        used = connection.given()
        columns = (*((table.name, "number") for table in CHECKED), ("trajectories", "seq"))
        largest = {
            name: connection.execute(f"SELECT max({column}) FROM {name}").fetchone()[0]
            for name, column in columns
        }
    if sorted(meta) != ["change", "reclaimed"]:
        yield Finding("meta", "its keys are not the expected ones")
    elif not max(newest[0], meta["reclaimed"]) <= meta["change"]:
        yield Finding("meta", "the change number is behind the rows")
    for name, number in largest.items():
        if number is not None and not number <= used.get(name, 0):
            yield Finding(name, "its rows are ahead of the numbers given out")


def _checksums(table: Table) -> tuple[str, Examine]:
    """How to walk a table whose rows carry checksums, and how to look at each."""
    query = f"SELECT number, {', '.join(table.columns)}, at, crc FROM {table.name} WHERE number"

    def examine(row: tuple[Any, ...]) -> Finding | None:
        *facts, crc = row
        if _is_plain(facts) and row_crc(facts) == crc:
            return None
        return Finding(f"{table.name} row {facts[0]}", "its checksum does not match")

    return query, examine


def _fences(connection: Database) -> Iterator[Finding]:
    """A row is fenced exactly by a fence that exists and that its run and step lie behind."""
    for name in (*(table.name for table in OF_A_STEP), "trajectories"):
        wrong = connection.execute(
            f"SELECT count(*) FROM {name} t WHERE t.fence <> 0 AND NOT EXISTS (SELECT 1 FROM "
            "fences f WHERE f.number = t.fence AND f.run = t.run AND t.step > f.after_step)"
        ).fetchone()[0]
        if wrong:
            yield Finding(name, f"{wrong} rows are fenced without a fence")
    for (number,) in connection.execute("SELECT number FROM fences").fetchall():
        with connection.moment():
            sql = "SELECT contents FROM fences WHERE number = ?"
            held = connection.execute(sql, [number]).fetchone()
            found = removal.contents(connection, number)
        if held is not None and held[0] != found:
            yield Finding(f"fences row {number}", "it does not hold what it held when it was made")


def _frames(connection: Database) -> tuple[str, Examine]:
    """How to walk trajectories: each repeats its frame, and its state follows from the ledger."""
    numbers = Numbers(connection, connection.place)
    names = ("seq", "fence", "at", *state.State._fields, *TRAJECTORY_FACTS)
    facts_from = len(names) - len(TRAJECTORY_FACTS)
    query = f"SELECT {', '.join(names)} FROM trajectories WHERE seq"

    def examine(row: tuple[Any, ...]) -> Finding | None:
        seq, fence, at, *now = row[:facts_from]
        stored = row[facts_from:]
        id_ = TrajectoryId(stored[0]) if isinstance(stored[0], str) else None
        is_its_own = True
        try:
            with connection.translated():
                problem = _compare(connection, seq, stored, numbers, at)
                if not problem and not fence and _derived(connection, str(id_)) != tuple(now):
                    problem = "its uses, score or status differ from the ledger"
        except _NO_FINDING:
            raise
        except _unreadable(connection) as error:
            problem = getattr(error, "problem", str(error.__cause__ or error))
            is_its_own = isinstance(error, _ITS_OWN)
        if not problem:
            return None
        # A fenced row shares its id with the one that took its place, which is not to blame.
        blamed = id_ if is_its_own and not fence else None
        return Finding(f"trajectory {id_ or seq}", problem, blamed)

    return query, examine


def _derived(connection: Database, id_: str) -> state.State:
    return state.derive(connection, [id_])[id_]


def _compare(
    connection: Database,
    seq: int,
    stored: tuple[object, ...],
    numbers: Numbers,
    at: float,
) -> str:
    """Say how a metadata row differs from its frame; empty when it does not."""
    row = connection.execute("SELECT frame FROM payloads WHERE seq = ?", [seq]).fetchone()
    if row is None:
        return "its frame is missing"
    trajectory = codec.decode(row[0])
    if arrivals.trajectory_facts(trajectory, row[0], numbers, at) != stored:
        return "its metadata differs from its frame"
    return ""


def _payloads() -> tuple[str, Examine]:
    """How to walk frames: each belongs to a trajectory."""
    query = (
        "SELECT p.seq, t.seq FROM payloads p LEFT JOIN trajectories t ON t.seq = p.seq WHERE p.seq"
    )

    def examine(row: tuple[Any, ...]) -> Finding | None:
        seq, owner = row
        if owner is not None:
            return None
        return Finding(f"payloads row {seq}", "it belongs to no trajectory")

    return query, examine


def _walk(connection: Database, name: str, query: str, examine: Examine) -> Iterator[Finding]:
    """Look at each row of a table, block by block, in the order of its first column."""
    last = _FIRST
    while True:
        try:
            with connection.moment():
                rows = connection.execute(f"{query} > ? ORDER BY 1 LIMIT {_BLOCK}", [last])
                block = [(row[0], examine(row)) for row in rows.fetchall()]
        except _NO_FINDING:
            raise
        except _unreadable(connection) as error:
            yield Finding(name, f"cannot be read ({error})")
            return
        yield from (finding for _, finding in block if finding)
        if len(block) < _BLOCK:
            return
        last = block[-1][0]


def _is_plain(values: list[object]) -> bool:
    return all(value is None or isinstance(value, int | float | str) for value in values)

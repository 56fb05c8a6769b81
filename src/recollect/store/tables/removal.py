"""Taking rows out of play: fencing steps, finding what is over budget, removing for good."""

from __future__ import annotations

from recollect.canonical import canonical_json
from recollect.store.records import Fence, Reclaimed
from recollect.store.tables import state
from recollect.store.tables.database import Database
from recollect.store.tables.schema import FENCES, OF_A_STEP, row_crc
from recollect.types import RunId

_OF_A_ROW = ("uses", "scores", "marks")  # what the state of a row follows from


def fence(
    connection: Database,
    run: RunId,
    number: int,
    after_step: int,
    reason: str,
    at: float,
    change: int,
) -> Fence:
    """Mark everything of later steps and undo what those steps did to earlier rows."""
    fence_id = connection.next_number(FENCES.name)
    later = "run = ? AND step > ? AND fence = 0"
    touched = connection.execute(
        " UNION ".join(f"SELECT trajectory FROM {name} WHERE {later}" for name in _OF_A_ROW),
        [number, after_step] * len(_OF_A_ROW),
    ).fetchall()
    for table in OF_A_STEP:
        connection.execute(
            f"UPDATE {table.name} SET fence = ? WHERE {later}", [fence_id, number, after_step]
        )
    fenced = connection.execute(
        f"UPDATE trajectories SET fence = ?, changed = ? WHERE {later}",
        [fence_id, change, number, after_step],
    )
    state.refresh(connection, [row[0] for row in touched], change)
    row = (fence_id, number, after_step, reason, contents(connection, fence_id), at)
    columns = ", ".join(("number", *FENCES.columns, "at", "crc"))
    connection.execute(
        f"INSERT INTO fences ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, row_crc(row))
    )
    return Fence(fence_id, run, after_step, reason, fenced.rowcount)


def contents(connection: Database, fence_id: int) -> str:
    """Sum up which rows a fence holds, so that a row that slips in or out is noticed."""
    held: dict[str, list[int]] = {}
    tables = {table.name: "number" for table in OF_A_STEP}
    # The ledger no longer tells what state a fenced trajectory is in.
    tables["trajectories"] = ", ".join(("seq", *state.State._fields))
    for table, columns in tables.items():
        sql = f"SELECT {columns} FROM {table} WHERE fence = ? ORDER BY 1"
        rows = connection.execute(sql, [fence_id]).fetchall()
        if rows:
            held[table] = [len(rows), row_crc([value for row in rows for value in row])]
    return canonical_json(held)


def reclaim(
    connection: Database, run: int | None, through_step: int | None, fenced: bool
) -> Reclaimed:
    """Delete evicted rows with their marks, and everything fenced if asked.

    The ledger of draws, uses and scores stays: the story of a step outlives the bytes, and a
    row that comes back later still has its uses counted.
    """
    connection.remember_given(connection.given())
    doomed = _evicted(connection, run, through_step)
    ids = [row[1] for row in doomed]
    if fenced:
        doomed += connection.execute(
            "SELECT seq, id, bytes, changed FROM trajectories WHERE fence <> 0"
        ).fetchall()
        for table in OF_A_STEP:
            connection.execute(f"DELETE FROM {table.name} WHERE fence <> 0")
        connection.execute("DELETE FROM fences")
    connection.executemany(
        "DELETE FROM marks WHERE trajectory = ? AND fence = 0", [(id_,) for id_ in ids]
    )
    for table_name in ("payloads", "trajectories"):
        connection.executemany(
            f"DELETE FROM {table_name} WHERE seq = ?", [(row[0],) for row in doomed]
        )
    if doomed:
        # `changed` says when indexes were told that a row is gone; see columns.changes.
        newest = max(row[3] for row in doomed)
        connection.execute(
            "UPDATE meta SET value = ? WHERE key = 'reclaimed' AND value < ?", [newest, newest]
        )
    return Reclaimed(len(doomed), sum(row[2] for row in doomed))


def _evicted(
    connection: Database, run: int | None, through_step: int | None
) -> list[tuple[int, str, int, int]]:
    """List (seq, id, bytes, changed) of evicted rows: all, or those of a run up to a step.

    A row that a resume from that step would find live or pinned again is not among them.
    """
    sql = (
        "SELECT seq, id, bytes, changed FROM trajectories t "
        "WHERE fence = 0 AND status = 'evicted' AND pinned = 0"
    )
    if run is None or through_step is None:
        return connection.execute(sql).fetchall()
    sql += (
        " AND EXISTS (SELECT 1 FROM marks m WHERE m.trajectory = t.id AND m.fence = 0 "
        "AND m.action = 'evict' AND m.run = ? AND m.step <= ?)"
    )
    found = connection.execute(sql, [run, through_step]).fetchall()
    return [row for row in found if state.is_evicted_without(connection, row[1], run, through_step)]

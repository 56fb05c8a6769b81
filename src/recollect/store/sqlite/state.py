"""What a row's marks and uses add up to. The writer keeps it, `verify` derives it again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from recollect.types import Action, Status

_STATUS_AFTER = {
    Action.EVICT: Status.EVICTED,
    Action.BAN: Status.BANNED,
    Action.UNBAN: Status.LIVE,
    Action.QUARANTINE: Status.QUARANTINED,
    Action.RELEASE: Status.LIVE,
}


class State(NamedTuple):
    """The part of a row that changes after it was written."""

    uses: int
    last_use: int | None
    status: str
    pinned: int


def after_marks(actions: Iterable[Action]) -> tuple[Status, bool]:
    """Replay marks, oldest first: the last word on status and on pinning counts."""
    status, pinned = Status.LIVE, False
    for action in actions:
        status = _STATUS_AFTER.get(action, status)
        if action in (Action.PIN, Action.UNPIN):
            pinned = action is Action.PIN
    return status, pinned


def derive(connection: sqlite3.Connection, trajectory: str) -> State:
    """Work out a row's state from the ledger."""
    uses, last_use = connection.execute(
        "SELECT count(*), max(step) FROM uses WHERE trajectory = ? AND fence = 0", [trajectory]
    ).fetchone()
    actions = connection.execute(
        "SELECT action FROM marks WHERE trajectory = ? AND fence = 0 ORDER BY number", [trajectory]
    )
    status, pinned = after_marks(_action(row[0]) for row in actions)
    return State(uses, last_use, status.value, int(pinned))


def _action(stored: str) -> Action:
    try:
        return Action(stored)
    except ValueError:
        raise sqlite3.DatabaseError(f"malformed mark {stored!r}") from None


def is_evicted_without(
    connection: sqlite3.Connection, trajectory: str, run: int, after_step: int
) -> bool:
    """Tell whether a row would still be evicted, and unpinned, were a run's later steps fenced."""
    actions = connection.execute(
        "SELECT action FROM marks WHERE trajectory = ? AND fence = 0 "
        "AND NOT (run IS ? AND step > ?) ORDER BY number",
        [trajectory, run, after_step],
    )
    return after_marks(_action(row[0]) for row in actions) == (Status.EVICTED, False)


def refresh(connection: sqlite3.Connection, trajectories: Iterable[str], change: int) -> None:
    """Bring live rows up to date with the ledger after it changed."""
    connection.executemany(
        "UPDATE trajectories SET uses = ?, last_use = ?, status = ?, pinned = ?, changed = ? "
        "WHERE id = ? AND fence = 0",
        [(*derive(connection, id_), change, id_) for id_ in trajectories],
    )

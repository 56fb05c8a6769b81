"""What a row's uses, scores and marks add up to. The writer keeps it, `verify` derives it again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from recollect.canonical import canonical_json
from recollect.errors import StoreDamaged
from recollect.store.tables import schema
from recollect.store.tables.database import Database
from recollect.store.tables.rows import chunks
from recollect.types import Action, Status

_BLOCK = 4096  # rows per statement: bounded memory, and few statements
_STATUS_AFTER = {
    Action.EVICT: Status.EVICTED,
    Action.BAN: Status.BANNED,
    Action.QUARANTINE: Status.QUARANTINED,
}
_ENDS = {
    Action.UNBAN: (Status.BANNED,),
    Action.RELEASE: (Status.QUARANTINED, Status.EVICTED),
}


class State(NamedTuple):
    """The part of a row that changes after it was written; the fields name the columns.

    `uses` counts uses and `last_use` is the step of the latest; `advantage` to `ratio` are
    those of the newest score, None where there is none.
    """

    uses: int
    last_use: int | None
    status: str
    pinned: int
    advantage: float | None
    priority: float | None
    ess: float | None
    ratio: float | None


assert State._fields == schema.TRAJECTORY_STATE
UNTOUCHED = State(0, None, Status.LIVE.value, 0, None, None, None, None)

_STEPS = 2**40  # more than any run has; a run's number and a step fit one integer
# Each reads the ledger of the rows whose ids are bound, as one JSON array; {each} unfolds it.
# Steps of different runs do not compare: the last is that of the run that began last, and of its
# latest step. (Not the one written last: a step that is redone after a fence must count as it did.)
_USES = (
    f"SELECT trajectory, count(*), max(run * {_STEPS} + step) % {_STEPS} FROM uses "
    "WHERE trajectory IN (SELECT value FROM {each}) AND fence = 0 GROUP BY trajectory"
)
_MARKS = (
    "SELECT trajectory, action FROM marks "
    "WHERE trajectory IN (SELECT value FROM {each}) AND fence = 0 ORDER BY number"
)
_SCORES = (
    "SELECT trajectory, advantage, priority, ess, ratio FROM ("
    "SELECT trajectory, advantage, priority, ess, ratio, row_number() OVER (PARTITION BY "
    "trajectory ORDER BY run DESC, step DESC, number DESC) AS place FROM scores "
    "WHERE trajectory IN (SELECT value FROM {each}) AND fence = 0) AS placed WHERE place = 1"
)
_UPDATE = (
    f"UPDATE trajectories SET {', '.join(f'{name} = ?' for name in State._fields)}, changed = ? "
    "WHERE id = ? AND fence = 0"
)


def after_marks(actions: Iterable[Action]) -> tuple[Status, bool]:
    """Replay marks, oldest first: the last word on status and on pinning counts.

    What ends a ban or a quarantine brings back the status before it: a row that was evicted before
    it was banned is not live after that.
    """
    said, pinned = [Status.LIVE], False
    for action in actions:
        if said[-1] in _ENDS.get(action, ()):
            said.pop()
        elif action in _STATUS_AFTER and _STATUS_AFTER[action] is not said[-1]:
            said.append(_STATUS_AFTER[action])
        elif action in (Action.PIN, Action.UNPIN):
            pinned = action is Action.PIN
    return said[-1], pinned


def derive(connection: Database, trajectories: Iterable[str]) -> dict[str, State]:
    """Work out the states of rows from the ledger, with three statements for all of them."""
    ids = list(trajectories)
    wanted = [canonical_json(ids)]
    use, score, mark = (sql.format(each=connection.EACH) for sql in (_USES, _SCORES, _MARKS))
    uses = {row[0]: row[1:] for row in connection.execute(use, wanted)}
    scores = {row[0]: row[1:] for row in connection.execute(score, wanted)}
    actions: dict[str, list[Action]] = {}
    for id_, action in connection.execute(mark, wanted):
        actions.setdefault(id_, []).append(_action(connection, action))
    states: dict[str, State] = {}
    for id_ in ids:
        status, pinned = after_marks(actions.get(id_, ()))
        count, last = uses.get(id_, UNTOUCHED[:2])
        newest: Any = scores.get(id_, UNTOUCHED[4:])
        states[id_] = State(count, last, status.value, int(pinned), *newest)
    return states


def _action(connection: Database, stored: str) -> Action:
    try:
        return Action(stored)
    except ValueError:
        raise StoreDamaged(connection.place, f"it holds a mark {stored!r}") from None


def is_evicted_without(connection: Database, trajectory: str, run: int, after_step: int) -> bool:
    """Tell whether a row would still be evicted, and unpinned, were a run's later steps fenced."""
    actions = connection.execute(
        "SELECT action FROM marks WHERE trajectory = ? AND fence = 0 "
        f"AND NOT (run {connection.SAME} ? AND step > ?) ORDER BY number",
        [trajectory, run, after_step],
    )
    return after_marks(_action(connection, row[0]) for row in actions) == (Status.EVICTED, False)


def refresh(connection: Database, trajectories: Iterable[str], change: int) -> None:
    """Bring live rows up to date with the ledger after it changed."""
    for block in chunks(trajectories, _BLOCK):
        states = derive(connection, block)
        rows = ((*found, change, id_) for id_, found in states.items())
        connection.executemany(_UPDATE, rows)

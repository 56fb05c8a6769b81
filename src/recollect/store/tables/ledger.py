"""Reading the records that belong to tasks, runs and steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from recollect.ledger import (
    Cursor,
    Draw,
    Event,
    Group,
    Mark,
    Note,
    NoteLink,
    Run,
    Score,
    TaskState,
    Use,
)
from recollect.store.records import Provenance
from recollect.types import Action, GroupId, LinkKind, NoteId, RunId, Task, TaskKey, TrajectoryId

# Runs a query and returns all of its rows.
Select = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]

RUN_NAME = "(SELECT id FROM runs r WHERE r.number = run)"
_TASK_KEY = "(SELECT key FROM tasks k WHERE k.number = task)"
_RUN = "run = (SELECT number FROM runs WHERE id = ?)"


def tasks(select: Select, where: str = "", values: Sequence[object] = ()) -> dict[int, Task]:
    """Read tasks by number."""
    sql = (
        "SELECT number, environment, id, version, query, domain, split, level FROM tasks "
        f"{where} ORDER BY number"
    )
    return {row[0]: Task(*row[1:]) for row in select(sql, values)}


def runs(select: Select) -> dict[int, Run]:
    """Read runs by number."""
    found = select("SELECT number, id, seed, config FROM runs ORDER BY number", ())
    return {row[0]: Run(RunId(row[1]), row[2], json.loads(row[3])) for row in found}


def provenances(select: Select) -> dict[int, Provenance]:
    """Read fingerprint triples by number."""
    sql = (
        "SELECT number, tokenizer, environment_version, reward_version FROM provenances "
        "ORDER BY number"
    )
    return {row[0]: Provenance(*row[1:]) for row in select(sql, ())}


def groups(select: Select, run: RunId, step: int) -> list[Group]:
    """Read the groups of one step."""
    sql = (
        f"SELECT id, {RUN_NAME}, step, {_TASK_KEY}, policy_version FROM groups "
        f"WHERE fence = 0 AND {_RUN} AND step = ? ORDER BY number"
    )
    return [
        Group(GroupId(row[0]), RunId(row[1]), row[2], TaskKey(row[3]), row[4])
        for row in select(sql, [run, step])
    ]


def task_states(select: Select, run: RunId) -> list[TaskState]:
    """Read the newest state of every task, in the order the tasks were first stored."""
    sql = (
        f"SELECT {_TASK_KEY}, step, successes, rows, retired, retest_step, data "
        f"FROM task_states s WHERE fence = 0 AND {_RUN} AND step = (SELECT max(n.step) FROM "
        "task_states n WHERE n.fence = 0 AND n.run = s.run AND n.task = s.task) ORDER BY task"
    )
    return [
        TaskState(
            run, TaskKey(row[0]), row[1], row[2], row[3], bool(row[4]), row[5], json.loads(row[6])
        )
        for row in select(sql, [run])
    ]


def draws(
    select: Select, run: RunId | None, step: int | None, trajectory: TrajectoryId | None
) -> list[Draw]:
    """Read draws of a run, a step, a trajectory, or any combination, in order of decision."""
    columns = f"{RUN_NAME}, step, slot, trajectory, group_id, age, probability, reason, weight"
    found = _of_steps(select, "draws", columns, run, step, trajectory)
    return [Draw(RunId(r[0]), r[1], r[2], TrajectoryId(r[3]), GroupId(r[4]), *r[5:]) for r in found]


def uses(
    select: Select, run: RunId | None, step: int | None, trajectory: TrajectoryId | None
) -> list[Use]:
    """Read uses of a run, a step, a trajectory, or any combination, in order."""
    columns = (
        f"{RUN_NAME}, step, slot, trajectory, epochs, ratio_mean, ratio_p50, ratio_p99, "
        "ratio_max, ess, clip_share, loss_share"
    )
    found = _of_steps(select, "uses", columns, run, step, trajectory)
    return [Use(RunId(r[0]), r[1], r[2], TrajectoryId(r[3]), *r[4:]) for r in found]


def scores(
    select: Select, run: RunId | None, step: int | None, trajectory: TrajectoryId | None
) -> list[Score]:
    """Read scores of a run, a step, a trajectory, or any combination, in order."""
    columns = f"{RUN_NAME}, step, trajectory, advantage, priority, ess, ratio"
    found = _of_steps(select, "scores", columns, run, step, trajectory, within="number")
    return [Score(RunId(r[0]), r[1], TrajectoryId(r[2]), *r[3:]) for r in found]


def _of_steps(
    select: Select,
    table: str,
    columns: str,
    run: RunId | None,
    step: int | None,
    trajectory: TrajectoryId | None,
    within: str = "slot",
) -> list[tuple[Any, ...]]:
    conditions, values = ["fence = 0"], list[object]()
    for condition, value in ((_RUN, run), ("step = ?", step), ("trajectory = ?", trajectory)):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    where = " AND ".join(conditions)
    return select(
        f"SELECT {columns} FROM {table} WHERE {where} ORDER BY run, step, {within}", values
    )


def marks(select: Select, trajectory: TrajectoryId) -> list[Mark]:
    """Read what happened to a trajectory, oldest first."""
    sql = (
        f"SELECT trajectory, action, reason, {RUN_NAME}, step FROM marks "
        "WHERE fence = 0 AND trajectory = ? ORDER BY number"
    )
    return [
        Mark(TrajectoryId(row[0]), Action(row[1]), row[2], row[3], row[4])
        for row in select(sql, [trajectory])
    ]


def notes(select: Select, note: NoteId | None = None, workspace: str | None = None) -> list[Note]:
    """Read notes, oldest first."""
    conditions, values = ["fence = 0"], list[object]()
    for condition, value in (("id = ?", note), ("workspace = ?", workspace)):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    sql = (
        f"SELECT id, content, when_to_use, workspace, author, trust, {RUN_NAME}, step, data "
        f"FROM notes WHERE {' AND '.join(conditions)} ORDER BY number"
    )
    return [
        Note(*fields, data=json.loads(data))  # type: ignore[misc]
        for *fields, data in select(sql, values)
    ]


def links(select: Select, note: NoteId | None, trajectory: TrajectoryId | None) -> list[NoteLink]:
    """Read links of a note, of a trajectory, or all."""
    conditions, values = ["fence = 0"], list[object]()
    for condition, value in (("note = ?", note), ("trajectory = ?", trajectory)):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    sql = (
        f"SELECT note, trajectory, kind, {RUN_NAME}, step FROM links "
        f"WHERE {' AND '.join(conditions)} ORDER BY number"
    )
    return [
        NoteLink(NoteId(row[0]), TrajectoryId(row[1]), LinkKind(row[2]), row[3], row[4])
        for row in select(sql, values)
    ]


def events(select: Select, run: RunId, step: int | None) -> list[Event]:
    """Read events of a run, or of one of its steps, in the order they were committed."""
    only, values = ("", [run]) if step is None else (" AND step = ?", [run, step])
    sql = f"SELECT step, kind, data FROM events WHERE fence = 0 AND {_RUN}{only} ORDER BY number"
    return [Event(run, row[0], row[1], json.loads(row[2])) for row in select(sql, values)]


def newest_version(select: Select, run: RunId) -> int | None:
    """Read the policy version of a run's latest sampled rows, whatever became of them."""
    sql = (
        "SELECT policy_version FROM trajectories WHERE fence = 0 AND policy_version IS NOT NULL "
        f"AND {_RUN} ORDER BY step DESC, policy_version DESC LIMIT 1"
    )
    found = select(sql, [run])
    return int(found[0][0]) if found else None


def cursor(select: Select, run: RunId) -> Cursor | None:
    """Read a run's newest position."""
    sql = (
        f"SELECT step, policy_version, data FROM cursors WHERE fence = 0 AND {_RUN} "
        "ORDER BY step DESC LIMIT 1"
    )
    found = select(sql, [run])
    return Cursor(run, found[0][0], found[0][1], json.loads(found[0][2])) if found else None

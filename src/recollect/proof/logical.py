"""Everything that a reader can see of a store, as plain values that can be compared.

Left out is what is about the file and not about its contents: sequence and change numbers, times
of writing, sizes of files, and rows that are fenced.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from recollect.replay.pool import Pool
from recollect.store.base import StoreReader
from recollect.store.records import Query, Row
from recollect.types import RunId, TrajectoryId

_OF_THE_FILE = ("seq", "created")


def all_rows(store: StoreReader, query: Query | None = None, page: int = 1000) -> list[Row]:
    """List rows to the end, page by page."""
    wanted = Query(status=None) if query is None else query
    rows: list[Row] = []
    after: int | None = None
    while True:
        found = store.rows(wanted, after=after, limit=page)
        rows += found.rows
        after = found.next
        if after is None:
            return rows


def logical_dump(store: StoreReader) -> dict[str, Any]:
    """Read everything."""
    rows = all_rows(store)
    ids = [row.id for row in rows]
    runs = {run.id: asdict(run) for run in store.runs().values()}
    steps = sorted({row.step for row in rows})
    return {
        "rows": [_without(asdict(row), _OF_THE_FILE) for row in rows],
        "trajectories": store.get(ids),
        "tasks": {task.key: task for task in store.tasks().values()},
        "runs": runs,
        "groups": {(run, step): store.groups(RunId(run), step) for run in runs for step in steps},
        "task_states": {run: store.task_states(RunId(run)) for run in runs},
        "draws": store.draws(),
        "uses": store.uses(),
        "scores": store.scores(),
        "marks": {id_: store.marks(id_) for id_ in ids},
        "notes": store.notes(),
        "links": store.links(),
        "note_marks": store.note_marks(),
        "note_trials": store.note_trials(),
        "events": {run: store.events(RunId(run)) for run in runs},
        "cursors": {run: store.cursor(RunId(run)) for run in runs},
        "stats": _totals(store),
        "pool": pool_dump(Pool(store)),
    }


def pool_dump(pool: Pool) -> dict[TrajectoryId, tuple[object, ...]]:
    """Read a pool index, rows by id and numbers resolved to what they stand for.

    A number that stands for nothing, as damage may leave it, becomes None.
    """
    ids = pool.ids(range(len(pool)))
    dump: dict[TrajectoryId, tuple[object, ...]] = {}
    for position, id_ in enumerate(ids):
        facts = {name: column[position] for name, column in pool.facts.items()}
        task = pool.tasks.get(int(facts["task"]))
        dump[id_] = (
            None if task is None else task.key,
            pool.runs.get(int(facts["run"])),
            pool.provenances.get(int(facts["provenance"])),
            *(facts[name].item() for name in _FACTS),
            *(repr(facts[name].item()) for name in ("entropy", "logprob")),  # NaN equals NaN
            int(pool.uses[position]),
            int(pool.last_use[position]),
            bool(pool.pinned[position]),
            *(repr(getattr(pool, name)[position].item()) for name in _SCORES),
        )
    return dump


_SCORES = ("advantage", "priority", "ess", "ratio")
_FACTS = ("step", "version", "tokens", "sampled", "bytes", "reward", "success", "origin")


def _totals(store: StoreReader) -> dict[str, Any]:
    of_the_file = ("path", "schema", "journal", "file_bytes", "fenced")
    return _without(asdict(store.stats()), of_the_file)


def _without(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}

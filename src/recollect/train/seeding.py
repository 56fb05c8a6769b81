"""Beginning with the pool of an earlier run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from recollect.errors import NothingToStartFrom, SameRun
from recollect.ledger import Group, Run, Score
from recollect.replay import lineage
from recollect.replay.eligibility import matching
from recollect.replay.pool import Pool
from recollect.replay.reading import Reading, read_rows
from recollect.store import open_reader, place_of
from recollect.store.address import Place, is_same
from recollect.store.base import Store, StoreReader
from recollect.store.records import Batch, Provenance, Query
from recollect.train.folder import store_in
from recollect.trajectory import Trajectory
from recollect.types import RunId, TaskKey, TrajectoryId

_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Seeded:
    """What was taken over: rows, and rows left behind because their fingerprints differ.

    `versions` of each of their runs lie before this one, which is to be noted with it. `lost` are
    rows that could not be read, with the reason.
    """

    rows: int
    left: int
    versions: Mapping[RunId, int]
    source: str
    lost: Mapping[str, str] = field(default_factory=dict)


def seed_pool(store: Store, run: RunId, source: str, fingerprints: Provenance) -> Seeded:
    """Copy the live rows of another store, with the newest score of each, into this one.

    Rows keep their ids, their runs and their log-probs; copying again changes nothing. Rows that
    another tokenizer, template, environment or reward made are left behind: here they would be
    read as something they are not, and so are damaged ones. NothingToStartFrom if no row is left;
    SameRun if the other store knows a run of this one's name, whose rows would pass for ours. Where
    the other store is this one, everything is there already, and what this run wrote before it was
    killed is passed over.
    """
    path = place_of(source)
    path = store_in(path) if isinstance(path, Path) and path.is_dir() else path
    if is_same(place := store.path, path):
        return _in_place(store, run, place, fingerprints)
    rows = left = 0
    lost = dict[str, str]()
    with open_reader(path) as reader:
        tasks = {task.key: task for task in reader.tasks().values()}
        runs = {run.id: Run(run.id, run.seed, run.config) for run in reader.runs().values()}
        if run in runs:
            raise SameRun(path, run)
        for block in _blocks(reader):
            fitting = [t for t in block.rows.values() if _made_by(t) == fingerprints]
            rows, left = rows + len(fitting), left + len(block.rows) - len(fitting)
            lost |= block.lost
            scores = _newest_scores(reader, [t.id for t in fitting])
            named = [*(t.run for t in fitting), *(score.run for score in scores)]
            store.commit(
                Batch(
                    runs=[runs[name] for name in dict.fromkeys(named)],
                    tasks=[tasks[key] for key in dict.fromkeys(t.task for t in fitting)],
                    groups=_groups(fitting),
                    trajectories=fitting,
                    scores=scores,
                )
            )
        if not rows:
            raise NothingToStartFrom(path, left, len(lost))
        versions = lineage.inherited_from(reader)
    return Seeded(rows, left, versions, str(path), lost)


def _in_place(store: Store, run: RunId, place: Place, fingerprints: Provenance) -> Seeded:
    """Begin with the rows of other runs in the run's own store."""
    pool = Pool(store)
    mine = [number for number, name in pool.runs.items() if name == run]
    others, fitting = ~np.isin(pool.facts["run"], mine), matching(pool, fingerprints)
    rows = int(np.count_nonzero(others & fitting))
    left = int(np.count_nonzero(others & ~fitting))
    if not rows:
        raise NothingToStartFrom(place, left)
    # The others may have gone on since this run first began: what was noted then counts.
    versions = lineage.noted(store, run) or lineage.inherited_from(store)
    theirs = {name: n for name, n in versions.items() if name != run}
    return Seeded(rows, left, theirs, str(place))


def _blocks(reader: StoreReader) -> Iterator[Reading]:
    after: int | None = None
    while True:
        page = reader.rows(Query(), after, _BLOCK)
        if page.rows:
            yield read_rows(reader, [row.id for row in page.rows])
        if page.next is None:
            return
        after = page.next


def _made_by(trajectory: Trajectory) -> Provenance:
    return Provenance(
        trajectory.tokenizer, trajectory.environment_version, trajectory.reward_version
    )


def _groups(rows: Sequence[Trajectory]) -> list[Group]:
    found: dict[str, Group] = {}
    for t in rows:
        task = TaskKey(t.task)
        found.setdefault(t.group, Group(t.group, t.run, t.step, task, t.policy_version or 0))
    return list(found.values())


def _newest_scores(reader: StoreReader, ids: Sequence[TrajectoryId]) -> list[Score]:
    """Find the score that counts: the one whose figures the row's own metadata shows."""
    found = []
    for row in reader.rows(Query(ids=ids), limit=len(ids) or 1).rows:
        scores = reader.scores(trajectory=row.id)
        now = [s for s in scores if (s.advantage, s.priority) == (row.advantage, row.priority)]
        found += now[-1:]
    return found

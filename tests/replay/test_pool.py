"""The pool index equals a slow, plain reading of the store, whatever happened in between."""

from __future__ import annotations

import hashlib
import os
import random
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from factories import FakeRun, make_trajectory, person_mark
from memory import folder_in_memory
from recollect.errors import UnknownId
from recollect.ledger import Mark, Score
from recollect.proof.logical import all_rows, pool_dump
from recollect.replay import lineage
from recollect.replay.pool import Pool
from recollect.store import open_reader, open_store
from recollect.store.base import StoreReader
from recollect.store.records import PACK, Batch, Provenance, Query
from recollect.store.sqlite import SqliteReader, SqliteStore
from recollect.types import Action, Origin, RunId, TrajectoryId
from reporting import report
from store.place import write_steps

SEEDS = range(4)
OPERATIONS = 20
FAKE = FakeRun(seed=91, rows=3, tokens=12)


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with folder_in_memory() as folder, open_store(folder / "pool.db") as store:
        yield store


def brute_force(store: StoreReader) -> dict[TrajectoryId, tuple[object, ...]]:
    """What a pool index must hold, by listing live rows and reading every trajectory."""
    found: dict[TrajectoryId, tuple[object, ...]] = {}
    for row in all_rows(store, Query()):
        (t,) = store.get([row.id])
        nan = float("nan")
        entropy = nan if t.mean_entropy is None else float(np.float32(t.mean_entropy))
        logprob = nan if t.mean_logprob is None else float(np.float32(t.mean_logprob))
        found[row.id] = (
            t.task,
            t.run,
            Provenance(t.tokenizer, t.environment_version, t.reward_version),
            t.step,
            -1 if t.policy_version is None else t.policy_version,
            t.tokens.size,
            t.sampled_count,
            row.bytes,
            t.reward.value,
            t.success,
            tuple(Origin).index(t.origin),
            repr(entropy),
            repr(logprob),
            row.uses,
            -1 if row.last_use is None else row.last_use,
            row.pinned,
            *newest_score(store, row.id),
        )
    return found


def newest_score(store: StoreReader, id_: TrajectoryId) -> list[str]:
    """Advantage, priority, ESS and ratio of a row by reading all of its scores."""
    names = ("advantage", "priority", "ess", "ratio")
    (row,) = store.rows(Query(ids=[id_])).rows
    # Two runs may score a row in steps of one number; then the later one counts.
    scores = store.scores(trajectory=id_)
    newest = [s for s in scores if s.step == max(each.step for each in scores)]
    if not newest:
        assert row.advantage is None
        assert row.priority is None
        return ["nan"] * 4
    score = next(s for s in newest if (s.advantage, s.priority) == (row.advantage, row.priority))
    found = [getattr(score, name) for name in names]
    return [repr(float(np.float32("nan" if value is None else value))) for value in found]


def assert_exact(pool: Pool, store: StoreReader) -> None:
    expected = brute_force(store)
    assert pool_dump(pool) == expected
    assert list(pool_dump(pool)) == list(expected), "rows keep their order of arrival"
    assert np.all(np.diff(pool.seq) > 0)


class Story:
    """A random but repeatable life of a store: steps, uses, marks, fences, reclaims."""

    def __init__(self, store: SqliteStore, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.runs = [FakeRun(seed, RunId(name), rows=3, tokens=12) for name in ("a", "b")]
        self.next = {run.id: 0 for run in self.runs}
        self.variant = 0
        for run in self.runs:
            store.commit(run.setup())

    def go_on(self) -> str:
        """Do one thing; returns what it was."""
        action = self.random.choice(
            [*[self.step] * 5, self.mark, self.mark, self.fence, self.reclaim, self.demo]
        )
        action()
        return action.__name__

    def step(self) -> None:
        run = self.random.choice(self.runs)
        batch = run.step(self.next[run.id], self.variant)
        try:
            self.store.commit(batch)
        except UnknownId:  # it draws a row that is reclaimed
            self.store.commit(Batch(trajectories=batch.trajectories, cursors=batch.cursors))
        self.next[run.id] += 1

    def mark(self) -> None:
        rows = all_rows(self.store)
        if rows:
            chosen = self.random.sample(rows, min(3, len(rows)))
            actions = self.random.choices(tuple(Action), k=len(chosen))
            self.store.commit(
                Batch(marks=[person_mark(r.id, a) for r, a in zip(chosen, actions, strict=True)])
            )

    def fence(self) -> None:
        run = self.random.choice(self.runs)
        after = self.random.randrange(-1, self.next[run.id] + 1)
        self.store.fence(run.id, after, "resume")
        self.next[run.id] = min(self.next[run.id], after + 1)
        self.variant += 1

    def reclaim(self) -> None:
        run = self.random.choice([None, *self.runs])
        through = None if run is None else self.random.randrange(self.next[run.id] + 1)
        self.store.reclaim(run and run.id, through, fenced=self.random.random() < 0.5)

    def demo(self) -> None:
        row = make_trajectory(
            self.random.randrange(10**6),
            run=self.runs[0].id,
            step=10**6 + self.random.randrange(10**6),
            origin=Origin.DEMO,
            tokens=12,
        )
        self.store.commit(Batch(trajectories=[row]))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_index_follows_whatever_happens(store: SqliteStore, seed: int) -> None:
    """Three indexes: the writer's own, a reader's that looks often, one that looks seldom."""
    story = Story(store, seed)
    done: list[str] = []
    with open_reader(store.path) as reader:
        own, often, seldom = Pool(store), Pool(reader), Pool(reader)
        for number in range(OPERATIONS):
            done.append(story.go_on())
            own.refresh()
            often.refresh()
            assert_exact(own, store)
            assert_exact(often, reader)
            if number % 7 == 6:
                seldom.refresh()
                assert_exact(seldom, reader)
        assert pool_dump(Pool(reader)) == pool_dump(own)
    report(f"seed {seed}: {' '.join(done)}")


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_in_the_middle_of_a_refresh_are_not_lost(store: SqliteStore, seed: int) -> None:
    """Something is written between any two statements of a refresh; the next one makes it good.

    SQLite tells us when a statement is about to run, so the moment is exact and repeatable.
    """
    story = Story(store, seed)
    for _ in range(5):
        story.step()
    with open_reader(store.path) as reader:
        pool = Pool(reader)
        for number in range(OPERATIONS):
            story.go_on()
            interrupted_refresh(reader, pool, number % 7, story.go_on)
            pool.refresh()
            assert_exact(pool, reader)


def interrupted_refresh(
    reader: SqliteReader, pool: Pool, statement: int, happens: Callable[[], object]
) -> None:
    count = -1

    def before_each(_: str) -> None:
        nonlocal count
        count += 1
        if count == statement:
            happens()

    reader._connection.set_trace_callback(before_each)
    pool.refresh()
    reader._connection.set_trace_callback(None)


def test_a_row_reclaimed_in_the_middle_of_a_refresh_does_not_haunt(store: SqliteStore) -> None:
    """Evicted before, deleted while the index looks: no trace is left that it could read later."""
    write_steps(store, FAKE, 2)
    for statement in range(7):
        step = 2 + statement
        store.commit(Batch(trajectories=FAKE.trajectories(step)))
        with open_reader(store.path) as reader:
            pool = Pool(reader)
            marks = [person_mark(FAKE.row_id(step, 0), Action.EVICT)]
            store.commit(Batch(marks=marks))
            interrupted_refresh(reader, pool, statement, store.reclaim)
            pool.refresh()
            assert_exact(pool, reader)


@pytest.mark.parametrize("seed", [0, 1])
def test_an_index_in_another_process_follows(store: SqliteStore, seed: int) -> None:
    story = Story(store, seed)
    ask, answer = start_follower(store.path)
    try:
        for _ in range(OPERATIONS):
            story.go_on()
            os.write(ask, b"?")
            assert os.read(answer, 16) == fingerprint(brute_force(store))
    finally:
        os.close(ask)
        os.close(answer)
        os.wait()


def start_follower(path: Path) -> tuple[int, int]:
    """Fork a process that refreshes its index when asked and answers with a fingerprint."""
    asked, ask = os.pipe()
    answer, tell = os.pipe()
    if os.fork() == 0:
        os.close(ask)
        with open_reader(path) as reader:
            pool = Pool(reader)
            while os.read(asked, 1):
                pool.refresh()
                os.write(tell, fingerprint(pool_dump(pool)))
        os._exit(0)
    os.close(asked)
    os.close(tell)
    return ask, answer


def fingerprint(dump: dict[TrajectoryId, tuple[object, ...]]) -> bytes:
    return hashlib.blake2b(repr(list(dump.items())).encode(), digest_size=16).digest()


# -- what it offers ------------------------------------------------------------------------------


def test_an_empty_store_has_an_empty_pool(store: SqliteStore) -> None:
    pool = Pool(store)
    assert len(pool) == 0
    assert pool.read(np.array([], np.int64)) == {}
    pool.refresh()
    assert len(pool) == 0


def test_positions_lead_to_trajectories(store: SqliteStore) -> None:
    write_steps(store, FAKE, 3)
    pool = Pool(store)
    positions = np.array([4, 0, 2])
    found = pool.read(positions)
    assert list(found) == positions.tolist()
    assert [t.id for t in found.values()] == pool.ids(positions) == pool.ids([4, 0, 2])
    assert pool.lost == {}


def test_ages_are_counted_from_the_version_that_sampled(store: SqliteStore) -> None:
    write_steps(store, FAKE, 2)
    store.commit(Batch(trajectories=[make_trajectory(5, step=9, origin=Origin.DEMO)]))
    pool = Pool(store)
    versions = pool.facts["version"].tolist()
    ages = pool.ages(10, FAKE.id)
    assert ages.tolist() == [-1 if version < 0 else 10 - version for version in versions]
    assert ages.dtype == np.int32
    assert -1 in ages


def test_rows_of_another_run_are_older_than_all_of_this_one(store: SqliteStore) -> None:
    """As if the other run, up to its newest row here, had happened before this one."""
    other = FakeRun(seed=92, id=RunId("other"), rows=2, tokens=12)
    store.commit(FAKE.setup())
    store.commit(other.setup())
    assert Pool(store).ages(0, FAKE.id).tolist() == []
    for step in (0, 3):
        store.commit(Batch(trajectories=other.trajectories(step)))
        store.commit(Batch(trajectories=FAKE.trajectories(step)))
    demo = make_trajectory(5, run=other.id, step=99, origin=Origin.DEMO)
    store.commit(Batch(trajectories=[demo]))
    pool = Pool(store)
    assert pool.ages(5, FAKE.id).tolist() == [9, 9, 5, 5, 5, 6, 6, 2, 2, 2, -1]
    assert pool.ages(5, other.id).tolist() == [5, 5, 9, 9, 9, 2, 2, 6, 6, 6, -1]
    assert pool.ages(0, RunId("new")).tolist() == [4, 4, 4, 4, 4, 1, 1, 1, 1, 1, -1]


def test_rows_do_not_grow_younger_when_the_newest_of_their_run_go(store: SqliteStore) -> None:
    other = FakeRun(seed=92, id=RunId("other"), rows=2, tokens=12)
    store.commit(FAKE.setup())
    write_steps(store, other, 4)
    pool = Pool(store)
    last = pool.facts["step"] == 3
    before = pool.ages(0, FAKE.id)[~last].tolist()
    gone = pool.ids(np.flatnonzero(last))
    store.commit(Batch(marks=[Mark(id_, Action.EVICT, "old", FAKE.id, 0) for id_ in gone]))
    pool.refresh()
    assert pool.ages(0, FAKE.id).tolist() == before
    assert Pool(store).ages(0, FAKE.id).tolist() == before


def test_what_was_noted_of_an_inherited_run_counts(store: SqliteStore) -> None:
    other = FakeRun(seed=92, id=RunId("other"), rows=2, tokens=12)
    store.commit(FAKE.setup())
    write_steps(store, other, 1)
    store.commit(Batch(events=[lineage.note(FAKE.id, {other.id: 7})]))
    pool = Pool(store)
    sampled = pool.facts["version"] >= 0
    assert set(pool.ages(2, FAKE.id)[sampled].tolist()) == {9}
    store.fence(FAKE.id, 0, "resumed")
    assert set(Pool(store).ages(2, FAKE.id)[sampled].tolist()) == {9}


def test_ages_stay_in_range(store: SqliteStore) -> None:
    store.commit(FAKE.setup())
    store.commit(FakeRun(id=RunId("other")).setup())
    last = 2**31 - 1
    rows = [make_trajectory(1, run=RunId("other"), row=row) for row in range(2)]
    store.commit(Batch(trajectories=[replace(rows[0], policy_version=last), rows[1]]))
    assert Pool(store).ages(7, FAKE.id).tolist() == [8, last]


def test_scores_that_float32_cannot_hold_stay_finite(store: SqliteStore) -> None:
    write_steps(store, FAKE, 1)
    score = Score(FAKE.id, 1, FAKE.row_id(0, 0), -1e300, 1e300, ess=1e-300, ratio=1e39)
    store.commit(Batch(scores=[score]))
    pool = Pool(store)
    most = np.finfo(np.float32).max
    assert (pool.advantage[0], pool.priority[0], pool.ratio[0]) == (-most, most, most)
    assert pool.ess[0] == 0
    assert {column.dtype.name for column in (pool.advantage, pool.priority)} == {"float32"}
    assert np.isnan(pool.ess[1:]).all()


def test_a_row_that_comes_back_finds_its_old_place(store: SqliteStore) -> None:
    write_steps(store, FAKE, 3)
    pool = Pool(store)
    order = pool.ids(range(len(pool)))
    for action in (Action.BAN, Action.UNBAN):
        store.commit(Batch(marks=[person_mark(order[2], action)]))
        pool.refresh()
    assert pool.ids(range(len(pool))) == order


def test_a_stale_index_learns_that_a_row_is_gone(store: SqliteStore) -> None:
    write_steps(store, FAKE, 1)
    pool = Pool(store)
    store.commit(Batch(marks=[person_mark(FAKE.row_id(0, 0), Action.EVICT)]))
    store.reclaim()
    with pytest.raises(UnknownId):
        pool.ids([0])
    pool.refresh()
    assert len(pool) == FAKE.rows - 1


def test_blocks_do_not_lose_rows(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """With blocks of two rows, a first look and a refresh both need many of them."""
    from recollect.store.tables import columns

    monkeypatch.setattr(columns, "_BLOCK", 2)
    write_steps(store, FAKE, 3)
    pool = Pool(store)
    assert_exact(pool, store)
    store.commit_all(FAKE.step(step) for step in range(3, 7))
    store.commit(FAKE.step(7))
    pool.refresh()
    assert_exact(pool, store)


def test_a_refresh_reads_what_changed_not_the_pool(store: SqliteStore) -> None:
    """By SQLite's own account: the refresh goes through the index over changes."""
    write_steps(store, FAKE, 3)
    pool = Pool(store)
    store.commit(FAKE.step(3))
    statements: list[str] = []
    store._connection.set_trace_callback(statements.append)
    pool.refresh()
    store._connection.set_trace_callback(None)
    reads = [text for text in statements if "FROM trajectories" in text]
    plans = [store._connection.execute(f"EXPLAIN QUERY PLAN {text}").fetchall() for text in reads]
    # What was added, what changed; and, of each run, the version of its last step's rows.
    by = ("trajectories_changed", "trajectories_changed", "trajectories_step")
    assert all(index in plan[0][3] for index, plan in zip(by, plans, strict=True)), plans


def test_memory_per_row(store: SqliteStore) -> None:
    store.commit(FAKE.setup())
    rows = [make_trajectory(1, row=row, tokens=6) for row in range(1000)]
    store.commit(Batch(trajectories=rows))
    Pool(store)  # whatever is made once and kept
    tracemalloc.start()
    pool = Pool(store)
    held = tracemalloc.get_traced_memory()[0] / len(pool)
    tracemalloc.stop()
    assert PACK.itemsize == 50
    assert sum(column.nbytes for column in pool._columns.values()) / len(pool) < 100
    assert held < 200


def test_attached_columns_go_along_with_the_rows(store: SqliteStore) -> None:
    """Through growth, removal and return; the journal names what changed, `moves` what moved."""
    write_steps(store, FAKE, 2)
    pool = Pool(store)
    mine = pool.attach(np.int64)
    assert mine.values.tolist() == [0] * len(pool)
    mine.values[:] = pool.seq
    before, place, moves = pool.seq.tolist(), pool.journal.place, pool.moves
    store.commit(Batch(trajectories=FAKE.trajectories(2)))
    pool.refresh()
    new = [seq for seq in pool.seq.tolist() if seq not in before]
    assert mine.values.tolist() == [*before, *[0] * len(new)]
    told = pool.journal.since(place)
    assert told is not None
    assert set(new) <= set(told.tolist()) <= set(pool.seq.tolist())
    assert pool.moves == moves
    mine.values[:] = pool.seq
    gone, place = pool.ids([1])[0], pool.journal.place
    (number,) = pool.seq[[1]].tolist()
    store.commit(Batch(marks=[person_mark(gone, Action.BAN)]))
    pool.refresh()
    assert mine.values.tolist() == pool.seq.tolist()
    assert pool.find(np.array([number])).size == 0
    assert pool.moves > moves
    moves = pool.moves
    store.commit(Batch(marks=[person_mark(gone, Action.UNBAN)]))
    pool.refresh()
    assert pool.moves > moves
    assert mine.values.tolist() == [0 if seq == number else seq for seq in pool.seq.tolist()]
    assert pool.find(np.array([number, 10**9])).tolist() == [1]
    told = pool.journal.since(place)
    assert told is not None
    assert number in told.tolist()

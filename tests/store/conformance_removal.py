"""Taking rows out of play: marks, budgets, reclaiming, fencing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from factories import FakeRun, make_trajectory, person_mark
from recollect.errors import InvalidRecord, UnknownId
from recollect.ledger import Draw, Mark, Score, Use
from recollect.proof.logical import all_rows, logical_dump
from recollect.store.base import Store, StoreReader
from recollect.store.records import Batch, Query, Row
from recollect.types import Action, GroupId, RunId, Status, TrajectoryId
from store.place import write_steps

FAKE = FakeRun(seed=51)
OTHER = FakeRun(seed=52, id=RunId("run-b"))
A = Action
# What somebody does to a row, in order, and what becomes of it: the last word counts.
STORIES: list[tuple[list[Action], Status, bool]] = [
    ([], Status.LIVE, False),
    ([A.BAN], Status.BANNED, False),
    ([A.BAN, A.UNBAN], Status.LIVE, False),
    ([A.EVICT], Status.EVICTED, False),
    ([A.EVICT, A.RELEASE], Status.LIVE, False),
    ([A.QUARANTINE], Status.QUARANTINED, False),
    ([A.QUARANTINE, A.RELEASE], Status.LIVE, False),
    ([A.PIN], Status.LIVE, True),
    ([A.PIN, A.UNPIN], Status.LIVE, False),
    ([A.PIN, A.BAN], Status.BANNED, True),
    ([A.PIN, A.EVICT, A.UNPIN], Status.EVICTED, False),
    ([A.BAN, A.QUARANTINE], Status.QUARANTINED, False),
    ([A.EVICT, A.BAN], Status.BANNED, False),
    ([A.BAN, A.UNBAN, A.BAN], Status.BANNED, False),
    ([A.PIN, A.UNPIN, A.PIN], Status.LIVE, True),
    ([A.UNBAN, A.RELEASE, A.UNPIN], Status.LIVE, False),
]


def row_of(store: StoreReader, id_: TrajectoryId) -> Row:
    (row,) = store.rows(Query(ids=[id_], status=None)).rows
    return row


def fresh_rows(store: Store, count: int = 6) -> list[TrajectoryId]:
    """Rows of step 0 of a run, without anything else."""
    store.commit(FAKE.setup())
    rows = [make_trajectory(row, row=row) for row in range(count)]
    store.commit(Batch(trajectories=rows))
    return [row.id for row in rows]


def mark(store: Store, id_: TrajectoryId, action: Action, step: int | None = None) -> None:
    run = None if step is None else FAKE.id
    store.commit(Batch(marks=[Mark(id_, action, "test", run, step)]))


def draw_of(id_: TrajectoryId, slot: int) -> Draw:
    return Draw(OTHER.id, 5, slot, id_, GroupId("g"), 0, 1.0, "test")


class RemovalPromises:
    """What marks, `reclaim` and `fence` promise."""

    # -- marks -----------------------------------------------------------------------------

    def test_the_last_word_counts(self, store: Store) -> None:
        ids = fresh_rows(store, len(STORIES))
        for id_, (actions, _, _) in zip(ids, STORIES, strict=True):
            for action in actions:
                mark(store, id_, action)
        for id_, (actions, status, pinned) in zip(ids, STORIES, strict=True):
            row = row_of(store, id_)
            assert (row.status, row.pinned) == (status, pinned), actions
            assert store.get([id_])[0].id == id_, "a row out of play can still be read"
        assert list(store.verify()) == []

    def test_the_story_in_one_batch_is_the_same(self, store: Store) -> None:
        (id_,) = fresh_rows(store, 1)
        store.commit(Batch(marks=[person_mark(id_, a) for a in (A.BAN, A.UNBAN, A.PIN, A.BAN)]))
        assert (row_of(store, id_).status, row_of(store, id_).pinned) == (Status.BANNED, True)

    # -- reclaiming ------------------------------------------------------------------------

    def test_only_evicted_unpinned_rows_go(self, store: Store) -> None:
        live, evicted, banned, pinned, quarantined, _ = ids = fresh_rows(store)
        for id_, action in ((evicted, A.EVICT), (banned, A.BAN), (quarantined, A.QUARANTINE)):
            mark(store, id_, action)
        mark(store, pinned, A.PIN)
        mark(store, pinned, A.EVICT)
        size = row_of(store, evicted).bytes
        removed = store.reclaim(None, None, False)
        assert (removed.trajectories, removed.bytes) == (1, size)
        assert [row.id for row in all_rows(store)] == [id_ for id_ in ids if id_ != evicted]
        with pytest.raises(UnknownId):
            store.get([evicted])
        assert store.get([live])[0].id == live
        assert list(store.verify()) == []

    def test_a_run_reclaims_what_it_evicted_up_to_a_step(self, store: Store) -> None:
        ids = fresh_rows(store)
        store.commit(OTHER.setup())
        for step, id_ in enumerate(ids[:3], start=5):
            mark(store, id_, A.EVICT, step)
        mark(store, ids[3], A.EVICT)  # by a person
        store.commit(Batch(marks=[Mark(ids[4], A.EVICT, "b", OTHER.id, 1)]))
        assert store.reclaim(FAKE.id, 4, False).trajectories == 0
        assert store.reclaim(FAKE.id, 6, False).trajectories == 2
        assert [row.id for row in all_rows(store)] == ids[2:]
        assert store.reclaim(OTHER.id, 1, False).trajectories == 1
        assert store.reclaim(FAKE.id, 99, False).trajectories == 1
        assert [row.id for row in all_rows(store)] == [ids[3], ids[5]]

    def test_a_row_that_a_resume_would_bring_back_stays(self, store: Store) -> None:
        """Evicted at 5, let go at 7, evicted again at 9: a resume from 5 to 8 finds it live."""
        again, unpinned, simple = fresh_rows(store, 3)
        for step, action in ((5, A.EVICT), (7, A.RELEASE), (9, A.EVICT)):
            mark(store, again, action, step)
        for step, action in ((3, A.PIN), (5, A.EVICT), (9, A.UNPIN)):
            mark(store, unpinned, action, step)
        mark(store, simple, A.EVICT, 5)
        assert store.reclaim(FAKE.id, 8, False).trajectories == 1
        assert {row.id for row in all_rows(store)} == {again, unpinned}
        store.fence(FAKE.id, 8, "resume")
        assert row_of(store, again).status is Status.LIVE
        assert row_of(store, unpinned).pinned

    def test_the_ledger_outlives_the_bytes(self, store: Store) -> None:
        write_steps(store, FAKE, 3)
        use = FAKE.step(2).uses[0]
        id_ = use.trajectory
        counted = row_of(store, id_).uses
        mark(store, id_, A.EVICT)
        before = (store.draws(), store.uses(), store.scores())
        score = row_of(store, id_).priority
        store.reclaim(None, None, False)
        assert (store.draws(), store.uses(), store.scores()) == before
        step = 0 if id_ in FAKE.ids(0) else 1
        back = FAKE.trajectories(step)[FAKE.ids(step).index(id_)]
        store.commit(Batch(trajectories=[back]))
        row = row_of(store, id_)
        assert (row.status, row.uses, row.priority) == (Status.LIVE, counted, score)
        assert list(store.verify()) == []

    def test_run_and_step_go_together(self, store: Store) -> None:
        fresh_rows(store)
        with pytest.raises(ValueError, match="together"):
            store.reclaim(FAKE.id, None, False)
        with pytest.raises(ValueError, match="together"):
            store.reclaim(None, 3, False)
        with pytest.raises(UnknownId):
            store.reclaim(RunId("nobody"), 3, False)

    def test_an_index_older_than_a_reclaim_starts_over(self, store: Store) -> None:
        id_, _ = fresh_rows(store, 2)
        early = store.changes(None).change
        mark(store, id_, A.EVICT)
        told = store.changes(None).change
        store.reclaim(None, None, False)
        assert store.changes(early).reset
        assert not store.changes(told).reset

    # -- fencing ---------------------------------------------------------------------------

    def test_a_fence_undoes_later_steps(self, store: Store, reader: StoreReader) -> None:
        write_steps(store, FAKE, 4)
        write_steps(store, OTHER, 2)
        before = logical_dump(reader)
        for step in range(4, 8):
            store.commit(FAKE.step(step))
        assert logical_dump(reader) != before
        fence = store.fence(FAKE.id, 3, "resume")
        assert (fence.run, fence.after_step, fence.trajectories) == (FAKE.id, 3, 16)
        assert logical_dump(reader) == logical_dump(store) == before
        assert reader.stats().fenced == 16
        assert list(reader.verify()) == []

    def test_a_fence_brings_the_older_score_back(self, store: Store) -> None:
        write_steps(store, FAKE, 1)
        write_steps(store, OTHER, 1)
        row, other = FAKE.row_id(0, 0), OTHER.row_id(0, 0)
        first = row_of(store, row)
        for step in range(1, 4):
            scores = [
                Score(OTHER.id, step, id_, step, step, 1 / step, step) for id_ in (row, other)
            ]
            store.commit(Batch(scores=scores))
        for after, expected in ((2, 2.0), (1, 1.0)):
            store.fence(OTHER.id, after, "resume")
            for id_ in (row, other):
                found = row_of(store, id_)
                assert (found.advantage, found.priority) == (expected, expected)
            assert list(store.verify()) == []
        store.fence(OTHER.id, 0, "resume")
        again = row_of(store, row)
        assert (again.advantage, again.priority) == (first.advantage, first.priority)

    def test_a_score_of_another_run_outlives_the_fence_of_its_row(self, store: Store) -> None:
        write_steps(store, FAKE, 2)
        write_steps(store, OTHER, 1)
        id_ = FAKE.row_id(1, 0)
        store.commit(Batch(scores=[Score(OTHER.id, 9, id_, 3.0, 4.0)]))
        store.fence(FAKE.id, 0, "resume")
        store.commit(FAKE.step(1))
        row = row_of(store, id_)
        assert (row.advantage, row.priority) == (3.0, 4.0)
        assert list(store.verify()) == []

    def test_the_same_ids_can_be_written_again_with_other_content(self, store: Store) -> None:
        write_steps(store, FAKE, 6)
        store.fence(FAKE.id, 2, "resume")
        for step in range(3, 6):
            assert store.commit(FAKE.step(step, variant=1)).known == 0
        assert store.get(FAKE.ids(4)) == FAKE.trajectories(4, variant=1)
        assert store.cursor(FAKE.id) == FAKE.step(5, variant=1).cursors[0]
        assert list(store.verify()) == []

    def test_redoing_the_same_steps_equals_never_having_stopped(self, store: Store) -> None:
        write_steps(store, FAKE, 6)
        whole = logical_dump(store)
        for after in (4, 2, 0, -1):
            store.fence(FAKE.id, after, "resume")
            for step in range(after + 1, 6):
                store.commit(FAKE.step(step))
            assert logical_dump(store) == whole
        assert list(store.verify()) == []

    def test_other_runs_and_people_are_not_fenced(self, store: Store) -> None:
        write_steps(store, FAKE, 4)
        write_steps(store, OTHER, 4)
        banned = FAKE.row_id(0, 0)
        mark(store, banned, A.BAN)
        store.commit(
            Batch(draws=[replace(OTHER.step(1).draws[0], step=9, trajectory=FAKE.row_id(1, 0))])
        )
        store.fence(FAKE.id, 1, "resume")
        assert store.get(OTHER.ids(3)) == OTHER.trajectories(3)
        assert store.cursor(OTHER.id) == OTHER.step(3).cursors[0]
        assert row_of(store, banned).status is Status.BANNED
        assert len(store.draws(run=OTHER.id, step=9)) == 1

    def test_a_ban_outlives_the_fence_of_its_row(self, store: Store) -> None:
        """A resumed run makes the same row again; a person's word about it still counts."""
        write_steps(store, FAKE, 3)
        banned = FAKE.row_id(2, 0)
        mark(store, banned, A.BAN)
        store.fence(FAKE.id, 1, "resume")
        store.commit(FAKE.step(2))
        assert row_of(store, banned).status is Status.BANNED
        assert list(store.verify()) == []

    def test_fenced_rows_show_only_when_asked_for(self, store: Store) -> None:
        write_steps(store, FAKE, 3)
        store.fence(FAKE.id, 0, "resume")
        fenced = store.rows(Query(fenced=True, status=None), limit=99).rows
        assert {row.id for row in fenced} == {*FAKE.ids(1), *FAKE.ids(2)}
        assert all(row.fenced for row in fenced)
        assert {row.id for row in all_rows(store)} == set(FAKE.ids(0))
        with pytest.raises(UnknownId):
            store.get(FAKE.ids(1)[:1])
        with pytest.raises(UnknownId):
            store.resolve(FAKE.row_id(1, 0))
        with pytest.raises(UnknownId):
            mark(store, FAKE.row_id(1, 0), A.BAN)

    @pytest.mark.parametrize("removed", [False, True])
    def test_a_step_that_began_before_a_fence_is_finished_after_it(
        self, store: Store, removed: bool
    ) -> None:
        """One run drew rows of another, which is resumed meanwhile, and perhaps pruned."""
        write_steps(store, FAKE, 2)
        store.commit(OTHER.setup())
        drawn, late, kept = FAKE.row_id(1, 0), FAKE.row_id(1, 1), FAKE.row_id(0, 0)
        store.commit(Batch(draws=[draw_of(drawn, 0)]))
        store.fence(FAKE.id, 0, "resumed")
        if removed:
            store.reclaim(None, None, True)
        store.commit(Batch(draws=[draw_of(late, 1), draw_of(kept, 2)]))
        told = Batch(
            uses=[Use(OTHER.id, 5, slot, id_) for slot, id_ in enumerate((drawn, late, kept))],
            scores=[Score(OTHER.id, 5, id_, 1.0, 2.0) for id_ in (drawn, late, kept)],
            marks=[Mark(late, A.EVICT, "beyond the budget", OTHER.id, 5)],
        )
        for _ in range(2):
            store.commit(told)
        assert store.uses(OTHER.id) == list(told.uses)
        assert len(store.draws(OTHER.id)) == 3
        assert row_of(store, kept).priority == 2.0
        assert list(store.verify()) == []
        with pytest.raises(UnknownId):  # a person's word is about what shows
            mark(store, late, A.EVICT)
        # The other run makes its rows again: what was said of them counts, if it was kept.
        store.commit(FAKE.step(1))
        assert row_of(store, drawn).priority == 2.0
        assert OTHER.id in {use.run for use in store.uses(trajectory=drawn)}
        assert row_of(store, late).status is (Status.LIVE if removed else Status.EVICTED)
        assert list(store.verify()) == []

    def test_reclaiming_fenced_rows_changes_nothing_that_shows(self, store: Store) -> None:
        write_steps(store, FAKE, 6)
        store.fence(FAKE.id, 3, "first")
        store.commit(FAKE.step(4, variant=1))
        store.fence(FAKE.id, 1, "second")
        before = logical_dump(store)
        removed = store.reclaim(None, None, True)
        evicted = sum(row["status"] is Status.EVICTED for row in before["rows"])
        assert removed.trajectories >= 20
        assert store.stats().fenced == 0
        if not evicted:
            assert logical_dump(store) == before
        assert list(store.verify()) == []
        store.commit(FAKE.step(2, variant=2))
        assert store.get(FAKE.ids(2)) == FAKE.trajectories(2, variant=2)
        assert list(store.verify()) == []

    def test_reclaiming_evicted_rows_keeps_fences_whole(self, store: Store) -> None:
        """A fenced mark on a row that is reclaimed stays with its fence."""
        id_, _ = fresh_rows(store, 2)
        mark(store, id_, A.EVICT, 5)
        store.fence(FAKE.id, 4, "resume")
        mark(store, id_, A.EVICT, 2)
        assert store.reclaim(None, None, False).trajectories == 1
        assert list(store.verify()) == []

    def test_a_fence_of_nothing_is_fine(self, store: Store) -> None:
        write_steps(store, FAKE, 2)
        before = logical_dump(store)
        assert store.fence(FAKE.id, 99, "nothing").trajectories == 0
        assert logical_dump(store) == before
        with pytest.raises(UnknownId):
            store.fence(RunId("nobody"), 0, "no such run")
        with pytest.raises(InvalidRecord, match="reason"):
            store.fence(FAKE.id, 0, "\ud800")

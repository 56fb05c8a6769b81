"""Durable, atomic, idempotent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from factories import TASKS, FakeRun, make_trajectory, person_mark
from recollect.errors import StoreConflict, StoreError, UnknownId
from recollect.ledger import Draw, Score
from recollect.proof.logical import logical_dump
from recollect.store.base import Store, StoreReader
from recollect.store.records import Batch
from recollect.types import Action, GroupId, Reward, RunId, TrajectoryId
from store.place import ANY, Place, write_steps

GHOST = RunId("ghost")
NOT_TEXT = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad line")
FAKE = FakeRun(seed=11)
STEP = 3


def changed_record(kind: str) -> Any:
    """A record with the key of one that step 3 writes, and other content."""
    record = getattr(FAKE.step(STEP), kind)[0]
    other: dict[str, Any] = {
        "groups": {"policy_version": 99},
        "trajectories": {"reward": Reward(0.123)},
        "task_states": {"data": {"ema": 9.0}},
        "draws": {"reason": "another"},
        "uses": {"epochs": 77},
        "scores": {"priority": 77.0},
        "marks": {"reason": "another"},
        "notes": {"content": "another"},
        "note_trials": {"bare_wins": 1},
        "distillations": {"data": {"notes": ["another"]}},
        "cursors": {"policy_version": 77},
    }[kind]
    return replace(record, **other)


CONFLICTS = (
    *("groups", "trajectories", "task_states", "draws", "uses", "scores", "marks", "notes"),
    *("note_trials", "distillations", "cursors"),
)
OF_A_RUN = (
    *("groups", "task_states", "draws", "uses", "scores", "marks", "notes", "links", "events"),
    *("note_trials", "cursors"),
)


class WritingPromises:
    """What `commit` and `commit_all` promise."""

    def test_a_commit_is_visible_to_another_reader_at_once(
        self, store: Store, reader: StoreReader
    ) -> None:
        store.commit(FAKE.setup())
        for step in range(4):
            store.commit(FAKE.step(step))
            assert reader.get(FAKE.ids(step)) == FAKE.trajectories(step)
        assert logical_dump(reader) == logical_dump(store)

    def test_a_commit_outlives_its_writer(self, place: Place) -> None:
        with_writer = place.writer()
        write_steps(with_writer, FAKE, 3)
        before = logical_dump(with_writer)
        with_writer.close()
        reader = place.reader()
        assert logical_dump(reader) == before
        assert list(reader.verify()) == []
        reader.close()

    def test_nothing_shows_before_the_commit(self, store: Store, reader: StoreReader) -> None:
        write_steps(store, FAKE, 1)
        before = logical_dump(reader)

        def batches() -> Iterator[Batch]:
            yield FAKE.step(1)
            assert logical_dump(reader) == before
            yield FAKE.step(2)
            assert logical_dump(reader) == before

        store.commit_all(batches())
        assert reader.get(FAKE.ids(2)) == FAKE.trajectories(2)

    def test_a_conflict_leaves_nothing_of_the_batch(self, store: Store) -> None:
        """The last record of a batch conflicts with one that is stored, once for each kind."""
        write_steps(store, FAKE, 4)
        before = logical_dump(store)
        fresh = FAKE.step(4)
        for kind in CONFLICTS:
            batch = replace(fresh, **{kind: [*getattr(fresh, kind), changed_record(kind)]})
            with pytest.raises(StoreConflict):
                store.commit(batch)
            assert logical_dump(store) == before, kind
        store.commit(fresh)
        assert store.get(FAKE.ids(4)) == FAKE.trajectories(4)

    def test_the_same_key_with_other_content_is_refused(self, store: Store) -> None:
        write_steps(store, FAKE, 4)
        before = logical_dump(store)
        for kind in CONFLICTS:
            with pytest.raises(StoreConflict):
                store.commit(Batch(**{kind: [changed_record(kind)]}))
            assert logical_dump(store) == before, kind

    def test_a_run_or_task_with_other_content_is_refused(self, store: Store) -> None:
        store.commit(FAKE.setup())
        with pytest.raises(StoreConflict):
            store.commit(Batch(runs=[replace(FAKE.setup().runs[0], seed=99)]))
        task = replace(TASKS[0], domain="elsewhere")
        assert task.key == TASKS[0].key
        with pytest.raises(StoreConflict):
            store.commit(Batch(tasks=[task]))
        assert store.task(task.key) == TASKS[0]

    def test_the_same_batch_again_changes_nothing(self, store: Store) -> None:
        write_steps(store, FAKE, 4)
        before = logical_dump(store)
        for step in (0, 3):
            receipt = store.commit(FAKE.step(step))
            batch = FAKE.step(step)
            written = sum(len(getattr(batch, f.name)) for f in fields(batch))
            guided = sum(len(t.notes) for t in batch.trajectories)
            assert receipt.added == 0
            assert receipt.known == written + guided
        assert logical_dump(store) == before

    def test_a_half_known_batch_adds_the_other_half(self, store: Store) -> None:
        store.commit(FAKE.setup())
        whole = FAKE.step(0)
        half = {"trajectories": whole.trajectories[:2], "scores": whole.scores[:1], "events": ()}
        store.commit(replace(whole, **half))
        receipt = store.commit(whole)
        rest = (len(whole.trajectories) - 2, len(whole.scores) - 1, len(whole.events))
        assert receipt.added == sum(rest)
        assert store.get(FAKE.ids(0)) == FAKE.trajectories(0)

    def test_repeats_within_a_batch_are_one(self, store: Store) -> None:
        store.commit(FAKE.setup())
        row = make_trajectory(1)
        receipt = store.commit(Batch(trajectories=[row, row]))
        assert (receipt.added, receipt.known) == (1, 1)
        with pytest.raises(StoreConflict):
            store.commit(Batch(trajectories=[row, make_trajectory(2)]))

    def test_two_contents_under_one_new_id_are_refused(self, store: Store) -> None:
        store.commit(FAKE.setup())
        with pytest.raises(StoreConflict):
            store.commit(Batch(trajectories=[make_trajectory(1), make_trajectory(2)]))
        with pytest.raises(UnknownId):
            store.get([make_trajectory(1).id])

    def test_numbers_survive_as_they_are(self, store: Store) -> None:
        """Integers where floats are meant, signed zeros, extremes: equal, and verify is clean."""
        write_steps(store, FAKE, 1)
        id_ = FAKE.row_id(0, 0)
        draw = Draw(FAKE.id, 1, 0, id_, GroupId("g"), 0, 1, "int as probability", weight=-0.0)
        extreme = replace(draw, slot=1, probability=5e-324, weight=1.7976931348623157e308)
        store.commit(Batch(draws=[draw, extreme]))
        store.commit(Batch(draws=[draw, extreme]))
        assert store.draws(step=1) == [draw, extreme]
        score = Score(FAKE.id, 1, id_, advantage=-0.0, priority=0, ess=1, ratio=5e-324)
        extreme_score = replace(score, step=2, advantage=-1.7976931348623157e308, ess=5e-324)
        for _ in range(2):
            store.commit(Batch(scores=[score, extreme_score]))
        assert store.scores(step=1) + store.scores(step=2) == [score, extreme_score]
        assert list(store.verify()) == []

    def test_many_rows_in_one_batch(self, store: Store) -> None:
        store.commit(FAKE.setup())
        rows = [make_trajectory(1, row=row, tokens=6) for row in range(700)]
        assert store.commit(Batch(trajectories=rows)).added == 700
        ids = [row.id for row in rows]
        assert store.get(ids) == rows
        assert [row.id for row in store.rows(ANY, limit=1000).rows] == ids

    # -- commit_all ------------------------------------------------------------------------

    def test_commit_all_is_one_transaction(self, store: Store) -> None:
        store.commit(FAKE.setup())
        before = store.changes(None).change
        receipt = store.commit_all(FAKE.step(step) for step in range(3))
        assert receipt.change == store.changes(None).change == before + 1
        single = sum(len(getattr(FAKE.step(0), f.name)) for f in fields(Batch))
        assert receipt.added > single

    @pytest.mark.parametrize(
        "error",
        [ValueError("bad line"), KeyboardInterrupt(), NOT_TEXT],
        ids=lambda e: type(e).__name__,
    )
    def test_an_error_on_the_way_leaves_nothing(self, store: Store, error: BaseException) -> None:
        """Whoever supplies the batches hears of it as it was, not as a failure of the store."""
        store.commit(FAKE.setup())
        before = logical_dump(store)

        def batches() -> Iterator[Batch]:
            yield FAKE.step(0)
            raise error

        with pytest.raises(type(error)):
            store.commit_all(batches())
        assert logical_dump(store) == before
        store.commit(FAKE.step(0))

    def test_a_conflict_in_the_last_batch_leaves_nothing(self, store: Store) -> None:
        write_steps(store, FAKE, 1)
        before = logical_dump(store)
        with pytest.raises(StoreConflict):
            store.commit_all([FAKE.step(1), FAKE.step(2), FAKE.step(0, variant=1)])
        assert logical_dump(store) == before

    def test_nothing_to_commit_is_fine(self, store: Store) -> None:
        assert store.commit(Batch()).added == 0
        assert store.commit_all([]).added == 0

    # -- what a batch may refer to ---------------------------------------------------------

    def test_an_unknown_run_is_refused(self, store: Store) -> None:
        write_steps(store, FAKE, 3)
        before = logical_dump(store)
        batches = [Batch(trajectories=[make_trajectory(1, run=GHOST)])]
        for kind in OF_A_RUN:
            record = replace(getattr(FAKE.step(2), kind)[0], run=GHOST)
            batches.append(Batch(**{kind: [record]}))
        for batch in batches:
            with pytest.raises(UnknownId) as caught:
                store.commit(batch)
            assert caught.value.given == GHOST
        assert logical_dump(store) == before

    def test_an_unknown_task_is_refused(self, store: Store) -> None:
        store.commit(Batch(runs=FAKE.setup().runs))
        for kind in ("groups", "trajectories", "task_states"):
            with pytest.raises(UnknownId, match="task"):
                store.commit(Batch(**{kind: [getattr(FAKE.step(0), kind)[0]]}))

    def test_what_was_rolled_back_is_not_remembered(self, store: Store) -> None:
        """A run that was part of a failed batch is still unknown afterwards."""
        ghost = replace(FAKE.setup().runs[0], id=GHOST)
        bad = person_mark(TrajectoryId("nobody"), Action.BAN)
        with pytest.raises(UnknownId):
            store.commit(Batch(runs=[ghost], tasks=TASKS, marks=[bad]))
        with pytest.raises(UnknownId):
            store.commit(Batch(trajectories=[make_trajectory(1, run=GHOST)]))

    @pytest.mark.parametrize("kind", ["draws", "scores", "marks"])
    def test_an_unknown_trajectory_is_refused(self, store: Store, kind: str) -> None:
        write_steps(store, FAKE, 3)
        record = replace(getattr(FAKE.step(2), kind)[0], trajectory="nobody", step=9)
        with pytest.raises(UnknownId, match="nobody"):
            store.commit(Batch(**{kind: [record]}))

    def test_a_use_needs_its_draw(self, store: Store) -> None:
        write_steps(store, FAKE, 3)
        use = FAKE.step(2).uses[0]
        for wrong in (
            replace(use, slot=50),
            replace(use, step=1, slot=2, trajectory=FAKE.row_id(2, 0)),
            replace(use, slot=2, trajectory=FAKE.row_id(2, 0)),
        ):
            with pytest.raises(UnknownId, match="draw"):
                store.commit(Batch(uses=[wrong]))
        assert len(store.uses(step=2)) == len(FAKE.step(2).uses)

    def test_a_use_cannot_borrow_the_draw_of_another_run(self, store: Store) -> None:
        other = FakeRun(seed=12, id=RunId("run-b"))
        write_steps(store, FAKE, 3)
        write_steps(store, other, 1)
        with pytest.raises(UnknownId, match="draw"):
            store.commit(Batch(uses=[replace(FAKE.step(2).uses[0], run=other.id)]))

    # -- closing -------------------------------------------------------------------------

    def test_closing_twice_is_fine_and_closed_is_closed(self, place: Place) -> None:
        store = place.writer()
        store.close()
        store.close()
        with pytest.raises(StoreError):
            store.commit(FAKE.setup())

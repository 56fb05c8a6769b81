"""What belongs to tasks, runs and steps, and the totals."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from factories import TASKS, FakeRun, make_run, make_task, make_trajectory, person_mark
from recollect.errors import UnknownId
from recollect.ledger import Cursor, Event, Mark, Note, NoteLink, Score, TaskState
from recollect.note_ledger import NoteMark
from recollect.proof.life import Operation, Truth
from recollect.proof.logical import all_rows
from recollect.store.base import Store, StoreReader
from recollect.store.records import Batch, Provenance, Query
from recollect.types import (
    Action,
    LinkKind,
    NoteAction,
    NoteId,
    Origin,
    RunId,
    Status,
    TaskKey,
    TrajectoryId,
)
from store.place import write_steps

FAKE = FakeRun(seed=41)
OTHER = FakeRun(seed=42, id=RunId("run-b"))
NOBODY = RunId("nobody")


class LedgerPromises:
    """What the ledger keeps, reads back, and in which order."""

    def test_tasks(self, store: Store, reader: StoreReader) -> None:
        tasks = [make_task(seed) for seed in range(12)]
        store.commit(Batch(tasks=tasks))
        assert list(reader.tasks().values()) == tasks
        assert [reader.task(task.key) for task in tasks] == tasks
        with pytest.raises(UnknownId):
            reader.task(TaskKey("nothing"))

    def test_runs(self, store: Store, reader: StoreReader) -> None:
        runs = [make_run(seed) for seed in range(5)]
        store.commit(Batch(runs=runs))
        assert list(reader.runs().values()) == runs

    def test_provenances_are_one_row_per_triple(self, store: Store, reader: StoreReader) -> None:
        write_steps(store, FAKE, 3)
        store.commit(Batch(trajectories=[make_trajectory(7, row=9)]))
        assert set(reader.provenances().values()) == {
            Provenance("tok-0", "1", "1"),
            Provenance("tok-1", "1", "1"),
        }
        assert len(reader.provenances()) == 2

    def test_groups_of_a_step(self, store: Store) -> None:
        write_steps(store, FAKE, 3)
        write_steps(store, OTHER, 3)
        for step in range(3):
            assert store.groups(FAKE.id, step) == list(FAKE.step(step).groups)
        assert store.groups(FAKE.id, 99) == []
        assert store.groups(NOBODY, 0) == []

    def test_the_newest_state_of_a_task_wins(self, store: Store) -> None:
        write_steps(store, FAKE, 1)
        key = TASKS[0].key
        by_step = {step: TaskState(FAKE.id, key, step, step % 3, 4) for step in (20, 40, 30)}
        for state in by_step.values():
            store.commit(Batch(task_states=[state]))
        found = {state.task: state for state in store.task_states(FAKE.id)}
        assert found[key] == by_step[40]
        assert store.task_states(NOBODY) == []

    def test_every_task_has_one_newest_state(self, store: Store) -> None:
        write_steps(store, FAKE, 8)
        newest: dict[str, TaskState] = {}
        for step in range(8):
            newest |= {state.task: state for state in FAKE.step(step).task_states}
        assert {s.task: s for s in store.task_states(FAKE.id)} == newest

    def test_draws_and_uses_by_any_combination(self, store: Store) -> None:
        write_steps(store, FAKE, 5)
        write_steps(store, OTHER, 5)
        draws = [d for run in (FAKE, OTHER) for step in range(5) for d in run.step(step).draws]
        uses = [u for run in (FAKE, OTHER) for step in range(5) for u in run.step(step).uses]
        some = draws[5].trajectory
        for run in (None, FAKE.id, OTHER.id):
            for step in (None, 2, 99):
                for trajectory in (None, some):
                    wanted = (run, step, trajectory)
                    assert store.draws(*wanted) == [d for d in draws if _fits(d, *wanted)]
                    assert store.uses(*wanted) == [u for u in uses if _fits(u, *wanted)]

    def test_uses_of_a_row_are_counted(self, store: Store) -> None:
        write_steps(store, FAKE, 6)
        uses = [use for step in range(6) for use in FAKE.step(step).uses]
        counts = Counter(use.trajectory for use in uses)
        latest = {use.trajectory: use.step for use in uses}
        assert max(counts.values()) > 1, "the test itself must use a row twice"
        for row in all_rows(store):
            assert row.uses == counts[row.id]
            assert row.last_use == latest.get(row.id)

    def test_a_draw_alone_is_not_a_use(self, store: Store) -> None:
        write_steps(store, FAKE, 1)
        draw = replace(FAKE.step(1).draws[0], trajectory=FAKE.row_id(0, 0))
        store.commit(Batch(draws=[draw]))
        assert store.draws(trajectory=draw.trajectory) == [draw]
        assert {row.uses for row in all_rows(store)} == {0}

    def test_scores_by_any_combination(self, store: Store, reader: StoreReader) -> None:
        write_steps(store, FAKE, 5)
        write_steps(store, OTHER, 5)
        scores = [s for run in (FAKE, OTHER) for step in range(5) for s in run.step(step).scores]
        some = FAKE.step(2).scores[-1].trajectory
        for run in (None, FAKE.id, OTHER.id, NOBODY):
            for step in (None, 2, 99):
                for trajectory in (None, some):
                    wanted = (run, step, trajectory)
                    assert reader.scores(*wanted) == [s for s in scores if _fits(s, *wanted)]

    def test_the_newest_score_of_a_row_counts(self, store: Store) -> None:
        write_steps(store, FAKE, 6)
        newest = {s.trajectory: s for step in range(6) for s in FAKE.step(step).scores}
        assert max(Counter(s.trajectory for s in store.scores()).values()) > 1
        for row in all_rows(store):
            expected = newest[row.id]
            assert (row.advantage, row.priority) == (expected.advantage, expected.priority)

    def test_a_row_without_a_score_says_so(self, store: Store) -> None:
        store.commit(FAKE.setup())
        store.commit(Batch(trajectories=FAKE.trajectories(0)))
        assert {(row.advantage, row.priority) for row in all_rows(store)} == {(None, None)}

    def test_the_newest_score_is_that_of_the_latest_run_and_step_not_the_latest_written(
        self, store: Store
    ) -> None:
        write_steps(store, FAKE, 1)
        write_steps(store, OTHER, 1)
        row = FAKE.row_id(0, 0)
        told = (
            *((FAKE.id, 7, True), (FAKE.id, 5, False), (OTHER.id, 6, True), (OTHER.id, 7, True)),
            *((OTHER.id, 5, False), (FAKE.id, 8, False), (OTHER.id, 8, True)),
        )
        for number, (run, step, counts) in enumerate(told):
            before = all_rows(store, Query(ids=[row]))[0].priority
            score = Score(run, step, row, -0.5, 1000 + number)
            store.commit(Batch(scores=[score]))
            (found,) = all_rows(store, Query(ids=[row]))
            assert found.priority == (score.priority if counts else before), (run, step)
        assert list(store.verify()) == []

    def test_many_scores_in_one_batch(self, store: Store) -> None:
        """More than fit one statement, among them a row that was scored before."""
        store.commit(FAKE.setup())
        rows = [make_trajectory(1, row=row, tokens=6) for row in range(1200)]
        scores = [Score(FAKE.id, 1, t.id, 0.25 * n, n / 7, 0.5) for n, t in enumerate(rows)]
        store.commit(Batch(trajectories=rows, scores=[replace(scores[3], step=0)]))
        assert store.commit(Batch(scores=scores)).added == len(scores)
        found = [(row.advantage, row.priority) for row in all_rows(store)]
        assert found == [(s.advantage, s.priority) for s in scores]
        assert list(store.verify()) == []

    def test_marks_oldest_first(self, store: Store) -> None:
        write_steps(store, FAKE, 8)
        marks = [mark for step in range(8) for mark in FAKE.step(step).marks]
        for id_ in {mark.trajectory for mark in marks}:
            assert store.marks(id_) == [mark for mark in marks if mark.trajectory == id_]
        assert store.marks(TrajectoryId("nobody")) == []

    def test_the_end_of_a_ban_or_quarantine_brings_back_what_was(self, store: Store) -> None:
        write_steps(store, FAKE, 1)
        row = FAKE.row_id(0, 0)
        for action, status in (
            (Action.UNBAN, Status.LIVE),  # of nothing
            (Action.EVICT, Status.EVICTED),
            (Action.BAN, Status.BANNED),
            (Action.BAN, Status.BANNED),
            (Action.QUARANTINE, Status.QUARANTINED),
            (Action.UNBAN, Status.QUARANTINED),  # a ban is over only where it is the last word
            (Action.BAN, Status.BANNED),
            (Action.UNBAN, Status.QUARANTINED),
            (Action.RELEASE, Status.BANNED),
            (Action.UNBAN, Status.EVICTED),
            (Action.UNBAN, Status.EVICTED),
        ):
            store.commit(Batch(marks=[person_mark(row, action)]))
            assert store.row(row).status is status, action
        truth = Truth().after([Operation("commit", (FAKE.setup(), FAKE.step(0)))])
        truth.marks = [*truth.marks, *(m for m in store.marks(row) if m.run is None)]
        assert truth.state(row)[0] is Status.EVICTED
        assert list(store.verify()) == []

    def test_what_became_of_notes_and_what_they_did(self, store: Store) -> None:
        write_steps(store, FAKE, 4)
        batches = [FAKE.step(step) for step in range(4)]
        assert store.note_marks() == [mark for batch in batches for mark in batch.note_marks]
        assert store.note_trials() == [trial for batch in batches for trial in batch.note_trials]
        note = FAKE.note_id(0)
        assert store.note_trials(note) == list(batches[1].note_trials)
        assert store.note_marks(note) == []
        by_hand = [NoteMark(note, NoteAction.BAN, "no"), NoteMark(note, NoteAction.UNBAN, "yes")]
        for mark in by_hand:
            store.commit(Batch(note_marks=[mark]))
        store.commit(Batch(note_marks=[by_hand[0]]))
        assert store.note_marks(note) == [*by_hand, by_hand[0]], "a person may ban twice"
        with pytest.raises(UnknownId):
            store.commit(Batch(note_marks=[NoteMark(NoteId("nothing"), NoteAction.BAN, "")]))

    def test_answers_of_a_distiller_outlive_a_fence(self, store: Store) -> None:
        write_steps(store, FAKE, 4)
        answer = FAKE.step(3).distillations[0]
        store.fence(FAKE.id, 1, "resumed")
        assert store.distillation(answer.key) == answer
        assert store.distillation("never-asked") is None
        assert store.note_trials(FAKE.note_id(2)) == []

    def test_the_version_of_notes_moves_with_them_only(self, store: Store) -> None:
        write_steps(store, FAKE, 2)
        before = store.note_version()
        store.commit(Batch(events=[Event(FAKE.id, 1, "nothing to do with notes")]))
        assert store.note_version() == before
        store.commit(Batch(note_marks=[NoteMark(FAKE.note_id(0), NoteAction.BAN, "")]))
        marked = store.note_version()
        assert marked != before
        store.fence(FAKE.id, 0, "resumed")
        assert store.note_version() != marked

    def test_notes(self, store: Store) -> None:
        write_steps(store, FAKE, 4)
        by_hand = Note(NoteId("by-hand"), "Be brief.", trust=1)
        store.commit(Batch(notes=[by_hand]))
        notes = [*(FAKE.step(step).notes[0] for step in range(4)), by_hand]
        assert store.notes() == notes
        assert store.notes("shop") == [note for note in notes if note.workspace == "shop"]
        assert store.notes("nowhere") == []
        assert store.note(by_hand.id) == by_hand
        with pytest.raises(UnknownId):
            store.note(NoteId("nothing"))

    def test_links_lead_both_ways(self, store: Store) -> None:
        write_steps(store, FAKE, 3)
        source, guided = FAKE.row_id(0, 0), FAKE.row_id(1, 3)
        note = FAKE.note_id(0)
        from_source = NoteLink(note, source, LinkKind.SOURCE, FAKE.id, 0)
        to_guided = NoteLink(note, guided, LinkKind.GUIDED, FAKE.id, 1)
        assert store.links(note=note) == [from_source, to_guided]
        assert store.links(trajectory=source) == [from_source]
        assert store.links(trajectory=guided) == [to_guided]
        assert store.links(note=note, trajectory=guided) == [to_guided]
        assert len(store.links()) == 5

    def test_events_in_the_order_they_were_committed(self, store: Store) -> None:
        write_steps(store, FAKE, 3)
        late = Event(FAKE.id, 0, "late", {"x": [1, None]})
        store.commit(Batch(events=[late, late]))
        expected = [event for step in range(3) for event in FAKE.step(step).events]
        assert store.events(FAKE.id) == [*expected, late]
        assert store.events(FAKE.id, 0) == [*FAKE.step(0).events, late]
        assert store.events(FAKE.id, 99) == []
        assert store.events(NOBODY) == []

    def test_events_that_differ_in_data_are_two(self, store: Store) -> None:
        store.commit(FAKE.setup())
        events = [Event(FAKE.id, 0, "loss", {"value": value}) for value in (1, 2)]
        store.commit(Batch(events=events))
        assert store.events(FAKE.id) == events

    def test_the_newest_cursor_wins(self, store: Store) -> None:
        store.commit(FAKE.setup())
        assert store.cursor(FAKE.id) is None
        cursors = {step: Cursor(FAKE.id, step, step + 5, {"at": step}) for step in (3, 9, 6)}
        for cursor in cursors.values():
            store.commit(Batch(cursors=[cursor]))
        assert store.cursor(FAKE.id) == cursors[9]
        assert store.cursor(NOBODY) is None

    def test_the_newest_version_is_that_of_the_latest_row_a_policy_sampled(
        self, store: Store
    ) -> None:
        write_steps(store, FAKE, 4)
        assert store.newest_version(FAKE.id) == 3
        demo = make_trajectory(9, run=FAKE.id, step=99, origin=Origin.DEMO)
        gone = [row.id for row in all_rows(store) if row.step == 3]
        marks = [Mark(id_, Action.EVICT, "old", FAKE.id, 3) for id_ in gone]
        store.commit(Batch(trajectories=[demo], marks=marks))
        assert store.newest_version(FAKE.id) == 3, "rows that left the pool count"
        store.fence(FAKE.id, 2, "resumed")
        assert store.newest_version(FAKE.id) == 2
        assert store.newest_version(NOBODY) is None

    def test_totals(self, store: Store, reader: StoreReader) -> None:
        write_steps(store, FAKE, 6)
        write_steps(store, OTHER, 2)
        rows, totals = all_rows(store), reader.stats()
        live = [row for row in rows if row.status is Status.LIVE]
        assert totals.trajectories == len(rows)
        assert totals.payload_bytes == sum(row.bytes for row in rows)
        assert totals.by_status == Counter(row.status.value for row in rows)
        assert totals.by_origin == Counter(row.origin.value for row in rows)
        assert (totals.runs, totals.tasks, totals.notes) == (2, len(TASKS), 8)
        assert (totals.draws, totals.uses) == (len(store.draws()), len(store.uses()))
        assert totals.fenced == 0
        for domain in totals.domains:
            mine = [row for row in live if row.domain == domain.domain]
            assert domain.trajectories == len(mine)
            assert domain.successes == sum(row.success for row in mine)
            assert domain.tasks == len({row.task for row in mine})
            assert domain.tokens == sum(row.tokens for row in mine)
            assert domain.mean_reward == pytest.approx(sum(r.reward for r in mine) / len(mine))
            assert domain.mean_uses == pytest.approx(sum(r.uses for r in mine) / len(mine))
        assert sum(domain.trajectories for domain in totals.domains) == len(live)

    def test_an_empty_store_has_nothing_and_says_so(self, store: Store) -> None:
        totals = store.stats()
        assert (totals.trajectories, totals.payload_bytes, totals.domains) == (0, 0, ())
        assert store.tasks() == {}
        assert store.draws() == []
        assert list(store.verify()) == []


def _fits(record: object, run: str | None, step: int | None, trajectory: str | None) -> bool:
    wanted = {"run": run, "step": step, "trajectory": trajectory}
    return all(value is None or getattr(record, name) == value for name, value in wanted.items())

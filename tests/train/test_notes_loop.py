"""Notes in the training loop: who is guided, what trains, what is written down and learnt."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import BadFile, NotesFromEvaluation
from recollect.notes.allocation import kept_tasks
from recollect.notes.files import write_notes
from recollect.notes.note import Draft
from recollect.notes.store_bank import StoreBank
from recollect.notes.strip import has_notes
from recollect.proof.logical import all_rows
from recollect.proof.traces import trace
from recollect.store import open_reader, open_store
from recollect.store.base import StoreReader
from recollect.store.records import Query
from recollect.telemetry.events import Event, StepFinished, Warned
from recollect.telemetry.reading import read_metrics
from recollect.train.batch import Batch
from recollect.train.folder import RunFolder
from recollect.train.loop import train
from recollect.train.note_parts import make_guide
from recollect.train.noting import Notebook
from recollect.train.session import open_session
from recollect.types import NoteAction, NoteStatus, Origin, RunId, TrajectoryId
from telemetry.naming import undocumented

from .damage import damage
from .noted import GUIDED, ROOM, write_bank
from .replays import EVERYTHING
from .small import WORLDS, Recorder, make_config, open_run, run_to_end

STEPS = 4
SHORT = (f"run.steps={STEPS}", "eval.every=0", "checkpoint.every=0")
RUN = RunId("run")


def batches_of(folder: Path, model: Path, *flags: str) -> dict[int, Batch]:
    """Run to the end and give what the learner was given, step by step."""
    seen: dict[int, Batch] = {}
    with open_run(folder, make_config(model, *SHORT, *flags)) as session:
        update = session.learner.update

        def watch(batch: Batch, step: int, *rest: Any) -> Any:
            seen[step] = batch
            return update(batch, step, *rest)

        session.learner.update = watch  # type: ignore[method-assign]
        assert train(session).step == STEPS
    return seen


@contextmanager
def store_of(folder: Path) -> Iterator[StoreReader]:
    with open_reader(folder / "store.db") as store:
        assert list(store.verify()) == []
        yield store


def guided_counts(folder: Path) -> Counter[tuple[int, str]]:
    with store_of(folder) as store:
        rows = all_rows(store, Query(run=RUN))
        return Counter((row.step, row.task) for row in rows if row.origin is Origin.GUIDED)


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    write_bank(tmp_path / "bank.db", "aaa bbb", "say much")
    return tmp_path / "bank.db"


# -- who is guided ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("flags", "count"), [(("notes.share=0.5",), 2), (("notes.share=0.8",), 3)])
def test_a_share_of_each_group_is_guided(
    model: Path, tmp_path: Path, bank: Path, flags: tuple[str, ...], count: int
) -> None:
    run_to_end(
        tmp_path / "run", make_config(model, *SHORT, *GUIDED, *flags, f"notes.start_from={bank}")
    )
    counts = guided_counts(tmp_path / "run")
    assert len(counts) == 2 * STEPS
    assert set(counts.values()) == {count}
    with store_of(tmp_path / "run") as store:
        trials = store.note_trials()
        assert all((t.rows, t.bare_rows) == (count, 4 - count) for t in trials)
        (row, *_) = [r for r in all_rows(store, Query(run=RUN)) if r.origin is Origin.GUIDED]
        whole = store.get([row.id])[0]
        assert {link.note for link in store.links(trajectory=row.id)} == {whole.notes[0].note}
    for line in read_metrics(tmp_path / "run").steps:
        assert undocumented(line.metrics) == []
        assert line.metrics["notes/guided"] == 2 * count


def test_without_notes_that_fit_everyone_is_unguided(model: Path, tmp_path: Path) -> None:
    run_to_end(tmp_path / "run", make_config(model, *SHORT, *GUIDED, "notes.rollout=all"))
    assert guided_counts(tmp_path / "run") == Counter()


def test_off_is_bit_identical(model: Path, tmp_path: Path, bank: Path) -> None:
    """Settings of notes without notes change nothing, and neither does a bank that nobody asks."""
    plain, off = tmp_path / "a" / "run", tmp_path / "b" / "run"
    run_to_end(plain, make_config(model, *SHORT))
    inert = ("notes.train=hybrid", "notes.cap=7", "notes.min_ess=0.5", f"notes.start_from={bank}")
    heard = Recorder()
    run_to_end(off, make_config(model, *SHORT, *inert), heard)
    assert trace(off) == trace(plain)
    said = [event.text for event in heard.events if isinstance(event, Warned)]
    assert any("notes.start_from is not used" in text for text in said)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("distill.every=1", "distill.delay=3"), "with distill.delay = 3 the first notes would"),
        (("distill.every=4",), "the first notes would come at step 5, and the run has run.steps"),
        (("distill.every=1", "distill.delay=2"), ""),
    ],
)
def test_a_run_too_short_to_learn_notes_says_so(
    model: Path, tmp_path: Path, flags: tuple[str, ...], told: str
) -> None:
    """And goes on: somebody tries it out."""
    heard = Recorder()
    config = make_config(model, "run.steps=3", "eval.every=0", *GUIDED, *flags)
    run_to_end(tmp_path / "run", config, heard)
    said = [event.text for event in heard.events if isinstance(event, Warned)]
    found = [text for text in said if "does nothing" in text]
    assert len(found) == bool(told)
    assert all(told in text for text in found)


# -- what trains -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["keep", "strip", "hybrid"])
def test_what_guided_rows_train_on(model: Path, tmp_path: Path, bank: Path, mode: str) -> None:
    flags = (*GUIDED, f"notes.train={mode}", f"notes.start_from={bank}")
    batches = batches_of(tmp_path / "run", model, *flags)
    with store_of(tmp_path / "run") as store:
        guided = {r.id for r in all_rows(store, Query(run=RUN)) if r.origin is Origin.GUIDED}
    assert len(guided) == 2 * 2 * STEPS, "half of each group"
    for step, batch in batches.items():
        tasks = list(dict.fromkeys(row.trajectory.task for row in batch.rows))
        kept = {task for task in tasks if mode == "keep"}
        if mode == "hybrid":
            kept = set(kept_tasks(tasks, "hybrid", 0.5, 0, step))
            assert len(kept) == 1
        for row in batch.rows:
            bare = row.trajectory.id in guided and row.trajectory.task not in kept
            assert row.stripped == bare
            assert has_notes(row.trajectory) == (row.trajectory.id in guided and not bare)


def test_guided_rows_can_be_replayed(model: Path, tmp_path: Path, bank: Path) -> None:
    """Replay, notes and stripping at once: masks of their own, nothing lost, all written down."""
    flags = (*GUIDED, *EVERYTHING, "notes.train=hybrid", f"notes.start_from={bank}")
    flags = (*flags, "correction.drop_above=50", "environment.tasks=3", "run.steps=6")
    kinds: Counter[tuple[bool, bool, bool]] = Counter()
    with open_run(tmp_path / "run", make_config(model, *SHORT, *flags)) as session:
        update = session.learner.update

        def watch(batch: Batch, step: int, *rest: Any) -> Any:
            every = [*batch.rows, *(row for part in batch.extra for row in part)]
            kinds.update(
                (row.pick is not None, row.stripped, has_notes(row.trajectory)) for row in every
            )
            return update(batch, step, *rest)

        session.learner.update = watch  # type: ignore[method-assign]
        train(session)
    for stored in (False, True):
        assert kinds[stored, True, False], "stripped rows"
        assert kinds[stored, False, True], "rows that kept their notes"
        assert kinds[stored, False, False], "rows that never had any"
        assert not kinds[stored, True, True]
    with store_of(tmp_path / "run") as store:
        assert store.uses(RUN)


@pytest.mark.parametrize("mode", ["keep", "strip", "hybrid"])
def test_a_run_without_notes_strips_the_guided_rows_of_the_pool_it_began_with(
    model: Path, tmp_path: Path, bank: Path, mode: str
) -> None:
    """What trains of a stored row is up to `notes.train`, whoever sampled it."""
    easy = f"{WORLDS.with_name('replay_worlds.py')}:Easy"
    flags = (*SHORT, *GUIDED, "notes.rollout=all", f"notes.start_from={bank}")
    run_to_end(tmp_path / "guided", make_config(model, *flags, world=easy))
    later = (*ROOM, "replay.modes=[buffer]", "replay.buffer_rows=4", "pool.max_age=none")
    later = (*later, f"pool.start_from={tmp_path / 'guided'}", f"environment.name={easy}")
    batches = batches_of(tmp_path / "run", model, *later, f"notes.train={mode}")
    guided = Counter(
        (row.stripped, has_notes(row.trajectory))
        for batch in batches.values()
        for update in batch.extra
        for row in update
        if row.trajectory.run != RUN
    )
    assert guided[True, True] == guided[False, False] == 0
    assert bool(guided[True, False]) == (mode != "keep"), "rows that lost their notes"
    assert bool(guided[False, True]) == (mode != "strip"), "rows that kept them"
    told = [line.metrics.get("notes/stripped", 0) for line in read_metrics(tmp_path / "run").steps]
    assert sum(told) == guided[True, False]


@pytest.mark.parametrize("more", [(), ("notes.ratio=recomputed",), ("notes.min_ess=1",)])
def test_a_critic_credits_rows_as_they_train(
    model: Path, tmp_path: Path, bank: Path, more: tuple[str, ...]
) -> None:
    """PPO: advantages token by token, over the prompt without the notes."""
    flags = (*GUIDED, "notes.train=strip", "algo.advantage=gae", f"notes.start_from={bank}")
    batches = batches_of(tmp_path / "run", model, *flags, *more)
    assert any(row.stripped for batch in batches.values() for row in batch.training)
    for line in read_metrics(tmp_path / "run").steps:
        assert undocumented(line.metrics) == []
        assert line.metrics["notes/stripped"] > 0
        assert math.isfinite(line.metrics["notes/loss"])
        assert line.metrics["train/skipped_steps"] == 0


# -- what is learnt --------------------------------------------------------------------------------


def test_notes_are_distilled_and_used(model: Path, tmp_path: Path) -> None:
    flags = (*GUIDED, "distill.every=1", "distill.kinds=[comparison,success,failure]")
    config = make_config(model, *SHORT, *flags)
    run_to_end(tmp_path / "run", config)
    with store_of(tmp_path / "run") as store:
        notes = StoreBank(store).notes()
        assert notes
        assert all(note.run == RUN and note.step and note.step > 1 for note in notes)
        for note in notes:
            assert store.links(note=note.id)
            assert note.step is not None
            sources = store.get([link.trajectory for link in store.links(note=note.id)
                                 if link.kind.value == "source"])  # fmt: skip
            assert {row.step for row in sources} == {note.step - 1}
    lines = read_metrics(tmp_path / "run").steps
    assert sum(line.metrics["notes/added"] for line in lines) == len(notes)
    assert sum(line.metrics["notes/guided"] for line in lines) > 0
    assert lines[0].metrics["notes/questions"] == 0


def test_the_policy_can_write_its_own_notes(model: Path, tmp_path: Path) -> None:
    flags = ("distill.every=2", "distill.by=policy", "distill.max_tokens=8")
    run_to_end(tmp_path / "run", make_config(model, *SHORT, *GUIDED, *flags))
    lines = read_metrics(tmp_path / "run").steps
    assert lines[2].metrics["notes/questions"] > 0
    assert all(line.metrics["notes/questions"] == 0 for line in lines if line.step != 3)


def test_a_full_bank_takes_no_more(model: Path, tmp_path: Path) -> None:
    flags = (*GUIDED, "distill.every=1", "distill.max_notes=1", "distill.max_similarity=1")
    run_to_end(tmp_path / "run", make_config(model, *SHORT, *flags))
    with store_of(tmp_path / "run") as store:
        assert len(StoreBank(store).notes()) == 1


def test_nothing_is_learnt_from_evaluation(model: Path, tmp_path: Path) -> None:
    """A note from a task that is evaluated on is refused; so is training on such tasks."""
    flags = (*GUIDED, "run.steps=1", "eval.every=1")
    config = make_config(model, *flags)
    with open_run(tmp_path / "first", config) as session:
        assert session.evaluator is not None
        task = session.evaluator.tasks[0].key
    path = tmp_path / "leaky.db"
    with open_store(path) as store:
        StoreBank(store).add([Draft("the answer", "Letters", tasks=(task,))])
    with pytest.raises(NotesFromEvaluation, match="notes ban"):
        open_run(tmp_path / "second", make_config(model, *flags, f"notes.start_from={path}"))
    with pytest.raises(NotesFromEvaluation, match=r"eval\.split"):
        open_run(
            tmp_path / "third", make_config(model, *flags, "eval.split=train", "distill.every=1")
        )


# -- a poisoned note -------------------------------------------------------------------------------


def test_a_poisoned_note_shows_and_can_be_taken_out(model: Path, tmp_path: Path) -> None:
    """Its credit tells, a ban keeps it out for good, and everything it guided can be found."""
    good, bad = write_bank(tmp_path / "bank.db", "abcabc", "zzzz zzzz")
    flags = (
        *ROOM,
        "notes.rollout=mixed",
        f"notes.start_from={tmp_path / 'bank.db'}",
        "run.steps=6",
    )
    folder = tmp_path / "run"
    with open_run(folder, make_config(model, *SHORT, *flags)) as session:
        assert session.notes is not None
        judge = session.collector.collect

        def poisoned(requests: Any, *rest: Any) -> Any:
            """The environment's verdict, were the note to make every attempt fail."""
            from dataclasses import replace

            found = judge(requests, *rest)
            rows = tuple(
                replace(row, success=not any(span.note == bad for span in row.notes))
                for row in found.trajectories
            )
            return replace(found, trajectories=rows)

        session.collector.collect = poisoned  # type: ignore[method-assign]
        session.notes._guide._bank = _only(session.notes.bank, bad, good)  # type: ignore[attr-defined]
        train(session)
    with store_of(folder) as store:
        bank = StoreBank(store)
        credit = bank.credit(bad)
        assert credit.rows > 0
        assert credit.wins == 0
        assert credit.gain is not None
        assert credit.gain_interval is not None
        assert credit.gain_interval[1] < 0, "the harm is certain"
        guided = {link.trajectory for link in store.links(note=bad)}
        assert len(guided) == credit.rows
        assert {row.id for row in store.get(sorted(guided))} == guided
    with open_store(folder / "store.db") as store:
        StoreBank(store).mark([bad], NoteAction.BAN, "poison")
        assert bad not in [found.note.id for found in StoreBank(store).search("Letters", 9)]


def _only(bank: StoreBank, bad: Any, good: Any) -> Any:
    """A bank that gives the bad note to every second question."""

    class Turns:
        asked = 0

        def search(self, *arguments: Any) -> Any:
            found = bank.search("Letters for number", 9)
            Turns.asked += 1
            wanted = bad if Turns.asked % 2 else good
            return [each for each in found if each.note.id == wanted]

    return Turns()


def test_notes_that_do_not_help_are_retired(model: Path, tmp_path: Path, bank: Path) -> None:
    flags = (*GUIDED, f"notes.start_from={bank}", "notes.retire_rows=4", "notes.retire_gain=1.0")
    run_to_end(tmp_path / "run", make_config(model, *SHORT, *flags))
    with store_of(tmp_path / "run") as store:
        retired = StoreBank(store).notes(status=NoteStatus.RETIRED)
        assert retired
        (mark,) = store.note_marks(retired[0].id)
        assert mark.run == RUN
        assert "gain" in mark.reason
    lines = read_metrics(tmp_path / "run").steps
    assert sum(line.metrics["notes/retired"] for line in lines) == len(retired)
    assert lines[-1].metrics["notes/live"] < 2


def test_what_a_person_takes_back_is_not_retired_again(
    model: Path, tmp_path: Path, bank: Path
) -> None:
    """Its old credit would retire it at the next step, before it could show anything."""
    flags = (*GUIDED, f"notes.start_from={bank}", "notes.retire_rows=4", "notes.retire_gain=1.0")
    run_to_end(tmp_path / "run", make_config(model, *SHORT, *flags))
    path = tmp_path / "run" / "store.db"
    with open_store(path) as store:
        notes = StoreBank(store)
        back = [note.id for note in notes.notes(status=NoteStatus.RETIRED)]
        assert back
        notes.mark(back, NoteAction.REVIVE, "one more chance")
    config = make_config(model, "run.steps=5", "eval.every=0", "checkpoint.every=0", *flags)
    with open_store(path) as store:
        guide = make_guide(config, StoreBank(store))
        notebook = Notebook(config, store, RUN, StoreBank(store), guide)
        assert notebook.retirements(5) == []
        StoreBank(store).mark(back, NoteAction.RETIRE, "again", RUN, STEPS)
        StoreBank(store).mark(back, NoteAction.REVIVE, "a step's own word", RUN, STEPS)
        assert {mark.note for mark in notebook.retirements(5)} == set(back)


def test_a_file_with_bad_notes_is_no_beginning(model: Path, tmp_path: Path, bank: Path) -> None:
    file = tmp_path / "notes.jsonl"
    with open_reader(bank) as reader:
        write_notes(StoreBank(reader).notes(), file)
    flags = (*GUIDED, "run.steps=1", f"notes.start_from={file}")
    with open_run(tmp_path / "whole", make_config(model, *flags)) as session:
        assert session.notes is not None
        assert len(session.notes.live()) == 2
    file.write_text(file.read_text() + '{"type":"note"}\n')
    with pytest.raises(BadFile, match="line 4"):
        open_run(tmp_path / "half", make_config(model, *flags))


# -- evaluation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["both", "all", "mixed"])
def test_evaluation_with_notes(model: Path, tmp_path: Path, bank: Path, mode: str) -> None:
    flags = (*ROOM, "run.steps=1", "eval.every=1", f"notes.evaluation={mode}")
    flags = (*flags, "eval.rows=2", "eval.temperature=1", f"notes.start_from={bank}")
    run_to_end(tmp_path / "run", make_config(model, *flags))
    plain = make_config(model, *ROOM, "run.steps=1", "eval.every=1", "eval.rows=2",
                        "eval.temperature=1")  # fmt: skip
    run_to_end(tmp_path / "plain", plain)
    for line, bare in zip(
        read_metrics(tmp_path / "run").evaluations,
        read_metrics(tmp_path / "plain").evaluations,
        strict=True,
    ):
        assert undocumented(line.metrics) == []
        assert line.metrics["eval/tasks"] == 8
        assert line.metrics["eval/guided_tasks"] == (4 if mode == "mixed" else 8)
        if mode == "both":
            assert line.metrics["eval/success"] == bare.metrics["eval/success"]
        if mode == "all":
            assert line.metrics["eval/success"] == line.metrics["eval/guided_success"]


def test_a_run_with_notes_can_be_opened_again_at_its_end(model: Path, tmp_path: Path) -> None:
    flags = ("run.steps=3", "checkpoint.every=1", *GUIDED, "distill.every=1", "distill.delay=2")
    run_to_end(tmp_path / "run", make_config(model, *flags))
    with open_session(RunFolder(tmp_path / "run"), {}) as session:
        assert session.done == 3
        assert session.notes is not None
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 3


def test_a_run_that_studies_goes_on_without_damaged_rows(model: Path, tmp_path: Path) -> None:
    """What its last steps generated is asked about again, as far as it can still be read."""

    def then(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == 2:
            raise KeyboardInterrupt

    flags = (*GUIDED, "checkpoint.every=1", "distill.every=1", "distill.delay=2")
    with pytest.raises(KeyboardInterrupt):
        run_to_end(tmp_path / "run", make_config(model, *SHORT[:2], *flags), Recorder(then))
    assert damage(tmp_path / "run" / "store.db")
    recorder = Recorder()
    with open_session(RunFolder(tmp_path / "run"), {"recorder": recorder}) as session:
        assert session.notes is not None
        lost = session.notes.lost
        assert lost
        assert all(session.store.row(TrajectoryId(id_)).step <= 2 for id_ in lost)
        assert train(session).step == STEPS
    told = [event.text for event in recorder.events if isinstance(event, Warned)]
    assert told[0].startswith(f"{len(lost)} stored rows could not be read, and no notes are made")

"""Guiding: who gets which notes, what is written down about it, who is retired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from factories import make_trajectory
from recollect.note_ledger import NoteTrial
from recollect.notes.bank import Found
from recollect.notes.credit import Credit
from recollect.notes.guide import Guide, GuideRules, question_of, trials_of
from recollect.notes.inject import NoteTemplate
from recollect.notes.note import Draft
from recollect.types import NoteId, Origin, RunId, Task

TEMPLATE = NoteTemplate.parse("[{}]")
SEAT, BAG = Draft("take the seat", "seat").note("d"), Draft("weigh the bag", "bag").note("d")
TASKS = [Task("e", f"t{n}", query=("seat", "bag", "nothing")[n % 3]) for n in range(6)]


class Shelf:
    """A bank that finds by one word, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def search(
        self,
        question: str,
        count: int,
        workspace: str = "default",
        min_trust: float = 0.0,
        without: Sequence[NoteId] = (),
    ) -> list[Found]:
        self.asked.append(question)
        found = [note for note in (SEAT, BAG) if note.when_to_use in question]
        return [Found(note, 1.0) for note in found if note.id not in without][:count]


def test_a_share_of_each_group_is_guided_and_each_task_asked_once() -> None:
    shelf = Shelf()
    guide = Guide(shelf, GuideRules(TEMPLATE, "mixed", 0.5), 1)
    found = guide.guidance(3, [(task, 8) for task in TASKS])
    for task in TASKS:
        mine = [guidance for (key, _), guidance in found.items() if key == task.key]
        assert len(mine) == (0 if task.query == "nothing" else 4)
        assert all(len(guidance.notes) == 1 for guidance in mine)
    assert len(shelf.asked) == len(TASKS)
    assert found == guide.guidance(3, [(task, 8) for task in TASKS])


def test_nobody_is_asked_where_nobody_is_guided() -> None:
    shelf = Shelf()
    assert Guide(shelf, GuideRules(TEMPLATE, "bare"), 1).guidance(1, [(TASKS[0], 8)]) == {}
    assert shelf.asked == []
    everyone = Guide(shelf, GuideRules(TEMPLATE, "all"), 1).guidance(1, [(TASKS[0], 8)])
    assert len(everyone) == 8


def test_notes_fill_the_room_there_is() -> None:
    both = Task("e", "x", query="seat bag")
    small = Guide(Shelf(), GuideRules(TEMPLATE, max_chars=15), 1).for_task(both)
    assert [note.id for note in small.notes] == [SEAT.id]
    large = Guide(Shelf(), GuideRules(TEMPLATE, place="system"), 1).for_task(both)
    assert (large.texts, large.place) == (("[take the seat", "\nweigh the bag]"), "system")
    barred = Guide(Shelf(), GuideRules(TEMPLATE), 1, [SEAT.id]).for_task(both)
    assert [note.id for note in barred.notes] == [BAG.id]


def test_a_note_that_shares_too_few_words_with_the_task_stays_out() -> None:
    task = Task("e", "x", query="Seat, please: bag later")
    found = [
        [
            note.id
            for note in Guide(Shelf(), GuideRules(TEMPLATE, min_overlap=o), 1).for_task(task).notes
        ]
        for o in (0.0, 0.25, 0.26)
    ]
    assert found == [[BAG.id], [BAG.id], []]  # one word of four


def test_the_question_is_the_query_or_the_name() -> None:
    assert question_of(Task("e", "t", query="why?")) == "why?"
    assert question_of(Task("e", "t7", domain="air")) == "air t7"


def test_a_trial_compares_within_the_group() -> None:
    note = NoteId("n")
    rows = [make_trajectory(n, row=n) for n in range(3)]
    guided = [make_trajectory(n, row=n, origin=Origin.GUIDED, note=note) for n in (3, 4)]
    elsewhere = replace(make_trajectory(9, row=9), group=replace(rows[0]).group + "x")
    trials = trials_of([*rows, *guided, elsewhere], RunId("r"), 7)
    wins, bare = sum(r.success for r in guided), sum(r.success for r in rows)
    assert trials == [NoteTrial(note, rows[0].group, 2, wins, 3, bare, RunId("r"), 7)]


def test_notes_are_retired_once_it_is_known_that_they_do_not_help() -> None:
    guide = Guide(Shelf(), GuideRules(TEMPLATE, retire_rows=10), 1)
    cases = {
        NoteId("helps"): Credit(10, 8, 10, 5),
        NoteId("hurts"): Credit(10, 2, 10, 5),
        NoteId("same"): Credit(12, 6, 12, 6),
        NoteId("young"): Credit(9, 0, 99, 50),
        NoteId("alone"): Credit(99, 0, 0, 0),
    }
    assert set(guide.useless(cases)) == {"hurts", "same"}
    assert Guide(Shelf(), GuideRules(TEMPLATE), 1).useless(cases) == {}
    choosy = Guide(Shelf(), GuideRules(TEMPLATE, retire_rows=10, retire_gain=0.4), 1)
    assert "helps" in choosy.useless(cases)

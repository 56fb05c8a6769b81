"""Guiding: which notes a task gets, which of its attempts have them, and what they did there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recollect.ledger import Note
from recollect.note_ledger import NoteTrial
from recollect.notes.allocation import RolloutMode, guided_rows
from recollect.notes.bank import NoteSearch
from recollect.notes.credit import Credit
from recollect.notes.inject import NOTHING, Guidance, NoteTemplate, Place
from recollect.notes.retrieve import similarity
from recollect.trajectory import Trajectory
from recollect.types import NoteId, RunId, Task, TaskKey


@dataclass(frozen=True, slots=True)
class GuideRules:
    """What a guide keeps to; the fields are those of the section `notes`."""

    template: NoteTemplate
    rollout: RolloutMode = "bare"
    share: float = 0.5
    place: Place = "user"
    top_k: int = 3
    max_chars: int = 2000
    min_trust: float = 0.5
    min_overlap: float = 0.0
    workspace: str = "default"
    retire_rows: int = 0
    retire_gain: float = 0.0


class Guide:
    """Gives notes to attempts. What it decides is a function of (seed, step, task) and the bank.

    A task is looked up once a step, however many of its attempts are guided. `barred` notes are
    passed over.
    """

    def __init__(
        self, bank: NoteSearch, rules: GuideRules, seed: int, barred: Sequence[NoteId] = ()
    ) -> None:
        self._bank = bank
        self._rules = rules
        self._seed = seed
        self._barred = tuple(barred)

    def guidance(
        self, step: int, rows: Sequence[tuple[Task, int]]
    ) -> dict[tuple[TaskKey, int], Guidance]:
        """Guide the attempts of a step: `rows` are tasks with their numbers of fresh rows.

        Rows without notes are left out, and so are tasks that no note fits.
        """
        rules, found = self._rules, dict[tuple[TaskKey, int], Guidance]()
        for task, count in rows:
            key = task.key
            chosen = guided_rows(count, rules.rollout, rules.share, self._seed, step, key)
            notes = self.for_task(task) if chosen else NOTHING
            if notes.notes:
                found |= {(key, row): notes for row in sorted(chosen)}
        return found

    def for_task(self, task: Task) -> Guidance:
        """Find the notes of a task, as its prompt shows them."""
        rules = self._rules
        question = question_of(task)
        found = self._bank.search(
            question, rules.top_k, rules.workspace, rules.min_trust, self._barred
        )
        chosen: list[Note] = []
        room = rules.max_chars
        for each in found:
            fits = overlap(question, each.note) >= rules.min_overlap
            if fits and len(each.note.content) <= room:
                chosen.append(each.note)
                room -= len(each.note.content)
        return Guidance(rules.template.wrap(chosen), rules.place) if chosen else NOTHING

    def useless(self, credit: Mapping[NoteId, Credit]) -> dict[NoteId, str]:
        """Name notes that were tried often enough and do not help, with the reason."""
        least = self._rules.retire_rows
        if not least:
            return {}
        return {
            note: f"gain {found.gain:+.3f} over {found.compared} attempts"
            for note, found in credit.items()
            if found.compared >= least
            and found.bare_rows >= least
            and found.gain is not None
            and found.gain <= self._rules.retire_gain
        }


def question_of(task: Task) -> str:
    """What the bank is asked for a task: its query, or its name where it has none."""
    return task.query or f"{task.domain} {task.id}"


def overlap(question: str, note: Note) -> float:
    """Measure how much a note has to do with a question, by the words of its when-to-use."""
    return similarity(question, note.when_to_use or note.content)


def trials_of(rows: Sequence[Trajectory], run: RunId, step: int) -> list[NoteTrial]:
    """Write down what each note did in each group of a step, beside the rows without any."""
    groups: dict[str, list[Trajectory]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    trials = []
    for group, here in groups.items():
        bare = [row for row in here if not row.notes]
        bare_wins = sum(row.success for row in bare)
        notes = dict.fromkeys(span.note for row in here for span in row.notes)
        for note in notes:
            mine = [row for row in here if any(span.note == note for span in row.notes)]
            wins = sum(row.success for row in mine)
            counts = (len(mine), wins, len(bare), bare_wins)
            trials.append(NoteTrial(note, group, *counts, run, step))
    return trials

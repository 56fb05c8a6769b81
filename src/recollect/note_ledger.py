"""What a run writes down about notes: what became of them, what they did, what a distiller said.

The notes themselves, and their links to trajectories, are in `recollect.ledger`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.canonical import Json
from recollect.errors import InvalidRecord
from recollect.types import NoteAction, NoteId, RunId
from recollect.validation import check_count, check_id, check_json, check_step, check_text


@dataclass(frozen=True, slots=True)
class NoteMark:
    """Something that happened to a note after it was written; the newest one counts.

    Made by a training step it carries its run and step, so that fencing the step undoes it. A
    person's carries neither and stays.
    """

    note: NoteId
    action: NoteAction
    reason: str
    run: RunId | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        check_id("note_mark.note", self.note)
        check_text("note_mark.reason", self.reason)
        if not isinstance(self.action, NoteAction):
            raise InvalidRecord("note_mark.action", f"{self.action!r} is not an action")
        check_step("note_mark", self.run, self.step)


@dataclass(frozen=True, slots=True)
class NoteTrial:
    """What a note did in one group: attempts and successes with it, and without any note.

    Both sides attempt the same task under the same policy, so they can be compared. Reported from
    outside of a run, it has neither run nor step, and `group` may be empty.
    """

    note: NoteId
    group: str
    rows: int
    wins: int
    bare_rows: int = 0
    bare_wins: int = 0
    run: RunId | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        check_id("note_trial.note", self.note)
        check_text("note_trial.group", self.group)
        for rows, wins in (("rows", "wins"), ("bare_rows", "bare_wins")):
            check_count(f"note_trial.{rows}", getattr(self, rows))
            check_count(f"note_trial.{wins}", getattr(self, wins))
            if getattr(self, wins) > getattr(self, rows):
                problem = f"{getattr(self, wins)} of {getattr(self, rows)} rows"
                raise InvalidRecord(f"note_trial.{wins}", problem)
        check_step("note_trial", self.run, self.step)


@dataclass(frozen=True, slots=True)
class Distillation:
    """What a distiller answered to one question, for good: asked again, it is not asked again.

    `key` is a digest of the question and of who was asked. It belongs to no step, so a run that
    goes back a few steps reads the same answer instead of getting another one.
    """

    key: str
    data: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_id("distillation.key", self.key)
        check_json("distillation.data", self.data)

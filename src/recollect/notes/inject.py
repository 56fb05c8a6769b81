"""Writing notes into prompts: the template, and which texts are appended to a message.

A note becomes segments of its own behind the text of a message, tokenised apart from it (see
`models.chat.Chat.opening`). Nothing in a note is interpreted: the template is cut at its one
placeholder, and a note's text stands in the cut as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from recollect.config.schema.notes import PLACEHOLDER, template_problem
from recollect.errors import InvalidRecord
from recollect.ledger import Note
from recollect.types import NoteId

SEPARATOR = "\n"

Place: TypeAlias = Literal["user", "system"]


@dataclass(frozen=True, slots=True)
class PromptNote:
    """A note as a prompt shows it: its id, and the text of its segment."""

    id: NoteId
    text: str


@dataclass(frozen=True, slots=True)
class Guidance:
    """The notes of one prompt, in order, and the message that they are appended to."""

    notes: tuple[PromptNote, ...] = ()
    place: Place = "user"

    @property
    def texts(self) -> tuple[str, ...]:
        """What is to be appended."""
        return tuple(note.text for note in self.notes)


NOTHING = Guidance()


@dataclass(frozen=True, slots=True)
class NoteTemplate:
    """What stands around the notes of a prompt."""

    before: str
    after: str

    @classmethod
    def parse(cls, text: str) -> NoteTemplate:
        """Cut a template at its placeholder; InvalidRecord unless there is exactly one."""
        problem = template_problem(text)
        if problem:
            raise InvalidRecord("notes.template", problem)
        before, _, after = text.partition(PLACEHOLDER)
        return cls(before, after)

    def wrap(self, notes: Sequence[Note]) -> tuple[PromptNote, ...]:
        """Write notes for a prompt, one segment each: what is around them goes with the ends."""
        last = len(notes) - 1
        return tuple(
            PromptNote(
                note.id,
                (self.before if place == 0 else SEPARATOR)
                + note.content
                + (self.after if place == last else ""),
            )
            for place, note in enumerate(notes)
        )

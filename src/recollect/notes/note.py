"""A note before it is in the bank: what it says, where it comes from, how far it is trusted.

Stored notes are `recollect.ledger.Note`. A note's id is a digest of workspace and text, so the same
lesson learnt twice is one note.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from recollect.canonical import Json, digest
from recollect.errors import InvalidRecord
from recollect.ledger import Note, NoteLink
from recollect.types import LinkKind, NoteId, RunId, TaskKey, TrajectoryId
from recollect.validation import check_finite, check_id, check_text

MOST_CHARS = 8000  # of a note's text; a prompt has to hold several
WORKSPACE = "default"


class NoteKind(str, Enum):
    """What a note was learnt from."""

    SUCCESS = "success"
    FAILURE = "failure"
    COMPARISON = "comparison"  # of a good attempt with a bad one at the same task
    WRITTEN = "written"  # by a person, or brought in from outside


@dataclass(frozen=True, slots=True)
class Draft:
    """A lesson on its way into the bank.

    `content` is what a prompt shows, `when_to_use` what retrieval looks at first. `trust` is in
    [0, 1]. `sources` are the trajectories it was learnt from and `tasks` their tasks: a note learnt
    from a task that is evaluated on is refused.
    """

    content: str
    when_to_use: str = ""
    kind: NoteKind = NoteKind.WRITTEN
    author: str = ""
    trust: float = 1.0
    sources: tuple[TrajectoryId, ...] = ()
    tasks: tuple[TaskKey, ...] = ()

    def __post_init__(self) -> None:
        for name in ("content", "when_to_use", "author"):
            check_text(f"note.{name}", getattr(self, name))
        if not self.content.strip():
            raise InvalidRecord("note.content", "is empty: a note has to say something")
        for name in ("content", "when_to_use"):
            if len(getattr(self, name)) > MOST_CHARS:
                size = len(getattr(self, name))
                problem = f"has {size:,} characters; {MOST_CHARS:,} are the limit"
                raise InvalidRecord(f"note.{name}", problem)
        check_finite("note.trust", self.trust)
        if not 0 <= self.trust <= 1:
            raise InvalidRecord("note.trust", f"{self.trust} is outside 0..1")
        for source in (*self.sources, *self.tasks):
            check_id("note.sources", source)

    def note(self, workspace: str, run: RunId | None = None, step: int | None = None) -> Note:
        """Make the record to be stored; a step's carries its run and step and is fenced with it."""
        data: dict[str, Json] = {"kind": self.kind.value}
        if self.sources:
            data["sources"] = [*self.sources]
        if self.tasks:
            data["tasks"] = [*self.tasks]
        return Note(
            id=note_id(workspace, self.when_to_use, self.content),
            content=self.content,
            when_to_use=self.when_to_use,
            workspace=workspace,
            author=self.author,
            trust=float(self.trust),
            run=run,
            step=step,
            data=data,
        )


def note_id(workspace: str, when_to_use: str, content: str) -> NoteId:
    """Name a note after what it says and where."""
    return NoteId(digest("note", workspace, when_to_use, content))


def draft_of(note: Note) -> Draft:
    """Take a stored note back to what it was before: for another workspace or another store."""
    return Draft(
        content=note.content,
        when_to_use=note.when_to_use,
        kind=kind_of(note),
        author=note.author,
        trust=min(1.0, max(0.0, note.trust)),
        sources=tuple(TrajectoryId(source) for source in _names(note, "sources")),
        tasks=tasks_of(note),
    )


def kind_of(note: Note) -> NoteKind:
    """Tell what a note was learnt from; notes that do not say were written."""
    found = note.data.get("kind")
    return NoteKind(found) if found in tuple(NoteKind) else NoteKind.WRITTEN


def tasks_of(note: Note) -> tuple[TaskKey, ...]:
    """Name the tasks that a note was learnt from."""
    return tuple(TaskKey(key) for key in _names(note, "tasks"))


def source_links(note: Note) -> list[NoteLink]:
    """Link a note to the trajectories that it was learnt from."""
    return [
        NoteLink(note.id, TrajectoryId(source), LinkKind.SOURCE, note.run, note.step)
        for source in dict.fromkeys(_names(note, "sources"))
    ]


def _names(note: Note, key: str) -> list[str]:
    found = note.data.get(key)
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []

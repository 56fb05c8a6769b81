"""What a bank of notes promises, wherever it keeps them.

`NoteBank` is the seam: our store behind it (`recollect.notes.store_bank`), or a service somewhere
else. A workspace is a shelf of its own: notes of one are never found from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from recollect.ledger import Note
from recollect.note_ledger import NoteTrial
from recollect.notes.credit import Credit
from recollect.notes.note import WORKSPACE, Draft
from recollect.types import NoteAction, NoteId, NoteStatus, RunId


@dataclass(frozen=True, slots=True)
class Found:
    """A note that answers a question, and how well: scores compare within one answer only."""

    note: Note
    score: float


@dataclass(frozen=True, slots=True)
class Added:
    """What became of drafts: new notes, and how many said what another note says already."""

    notes: tuple[Note, ...]
    duplicates: int


class NoteSearch(Protocol):
    """The part of a bank that a rollout needs: asking."""

    def search(
        self,
        question: str,
        count: int,
        workspace: str = WORKSPACE,
        min_trust: float = 0.0,
        without: Sequence[NoteId] = (),
    ) -> list[Found]:
        """Find at most `count` live notes for a question, best first; [] where none fits.

        Notes below `min_trust` and those in `without` are passed over. The answer is a function of
        the workspace's live notes and of the arguments.
        """


class NoteBank(NoteSearch, Protocol):
    """Notes, what became of them, and what they did. Safe to share between threads.

    - **Durable**: what `add`, `mark` and `record` were given survives kill -9 when they return.
    - **Once**: a draft that says what a note of its workspace says already (live, retired or
      banned) is not added; a banned lesson does not come back under another id.
    - **Nothing is deleted**: `mark` takes notes out of `search`, and can take them back in.
    - Run and step, where they are given, make a change part of that step: fencing undoes it.
    """

    def add(
        self,
        drafts: Sequence[Draft],
        workspace: str = WORKSPACE,
        run: RunId | None = None,
        step: int | None = None,
    ) -> Added:
        """Take new lessons up, in order, all in one transaction."""

    def mark(
        self,
        notes: Sequence[NoteId],
        action: NoteAction,
        reason: str,
        run: RunId | None = None,
        step: int | None = None,
    ) -> None:
        """Ban, unban, retire or revive notes; UnknownId if one of them is not there."""

    def record(self, trials: Sequence[NoteTrial]) -> None:
        """Write down what notes did."""

    def get(self, note: NoteId) -> Note:
        """Return a note, whatever its status; UnknownId if it is not there."""

    def resolve(self, prefix: str) -> NoteId:
        """Complete a shortened id; UnknownId or AmbiguousId if that fails."""

    def notes(self, workspace: str | None = None, status: NoteStatus | None = None) -> list[Note]:
        """List notes, oldest first, of one workspace and status or of any."""

    def status(self, note: NoteId) -> NoteStatus:
        """Tell whether a note may be used."""

    def credit(self, note: NoteId) -> Credit:
        """Tell what a note has done so far."""

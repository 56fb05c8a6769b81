"""What a rollout asks of notes, wherever they are kept.

`NoteSearch` is the seam: a bank in our store answers (`recollect.notes.store_bank`), or a service
somewhere else (`recollect.notes.remote.search`). A workspace is a shelf of its own: notes of one
are never found from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from recollect.ledger import Note
from recollect.notes.note import WORKSPACE
from recollect.types import NoteId


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
    """Asking for notes: all that a rollout needs."""

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

"""Runs with notes, small: settings, and a bank to begin with."""

from __future__ import annotations

from pathlib import Path

from recollect.notes.note import Draft
from recollect.notes.store_bank import StoreBank
from recollect.store import open_store
from recollect.types import NoteId

# The small model reads single letters: notes must be short to leave room for an answer.
ROOM = ("rollout.max_tokens=250", "train.pack_tokens=300", 'notes.template=" {}"', "notes.top_k=1")
GUIDED = (*ROOM, "notes.rollout=mixed")
WHEN = "Letters for number"


def write_bank(path: Path, *contents: str) -> list[NoteId]:
    """Make a store with notes that fit every task of `worlds.Letters`."""
    with open_store(path) as store:
        drafts = [Draft(content, WHEN) for content in contents]
        return [note.id for note in StoreBank(store, max_similarity=1.0).add(drafts).notes]

"""A note as ReMe spells it, a task memory: what both sides of the service write and read."""

from __future__ import annotations

from collections.abc import Mapping

from recollect.canonical import Json
from recollect.errors import InvalidRecord
from recollect.ledger import Note
from recollect.notes.credit import Credit
from recollect.notes.note import Draft, kind_of, tasks_of
from recollect.store.fields import to_number
from recollect.types import TaskKey


def memory_of(note: Note, score: float = 0.0, credit: Credit | None = None) -> dict[str, Json]:
    """Spell a note. `freq` and `utility` are the attempts that had it and those that succeeded."""
    metadata: dict[str, Json] = {"kind": kind_of(note).value, "trust": note.trust}
    if tasks_of(note):
        metadata["tasks"] = [*tasks_of(note)]
    if credit is not None:
        metadata |= {"freq": credit.rows, "utility": credit.wins}
    return {
        "workspace_id": note.workspace,
        "memory_id": note.id,
        "memory_type": "task",
        "when_to_use": note.when_to_use,
        "content": note.content,
        "score": score,
        "author": note.author,
        "metadata": metadata,
    }


def draft_of_memory(memory: Json, author: str, most_trust: float) -> Draft:
    """Read a note that somebody else sent; InvalidRecord where it is none.

    It is trusted `most_trust` at most, whatever it says itself. The tasks that it was learnt from
    are kept: they may be tasks that are evaluated on.
    """
    if not isinstance(memory, dict):
        raise InvalidRecord("memory", "is no JSON object")
    facts = memory.get("metadata")
    metadata: Mapping[str, Json] = facts if isinstance(facts, dict) else {}
    said = metadata.get("trust")
    known = isinstance(said, int | float) and not isinstance(said, bool)
    trust = to_number("memory.metadata.trust", said) if known else most_trust
    named = metadata.get("tasks")
    tasks = [key for key in named if isinstance(key, str)] if isinstance(named, list) else []
    return Draft(
        content=_text(memory, "content"),
        when_to_use=_text(memory, "when_to_use"),
        author=author,
        trust=min(most_trust, trust),
        tasks=tuple(TaskKey(key) for key in tasks),
    )


def _text(memory: Mapping[str, Json], name: str) -> str:
    found = memory.get(name, "")
    if not isinstance(found, str):
        raise InvalidRecord(f"memory.{name}", "is no text")
    return found

"""Notes in a file: Recollect's own JSON lines, as `recollect pool export` writes them too.

Each line is a note. Its run and step stay behind, because they mean nothing elsewhere, and so does
what it did: another policy has to find out for itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from recollect.canonical import canonical_json
from recollect.errors import BadFile, InvalidRecord
from recollect.ledger import Note
from recollect.notes.note import Draft, draft_of
from recollect.store import jsonl, plain
from recollect.store.incoming import DEFAULT_LIMITS, BadLine, bad_line
from recollect.store.publishing import publishing


@dataclass(frozen=True, slots=True)
class ReadNotes:
    """The notes of a file by workspace, in order, and the lines that could not be used."""

    drafts: tuple[tuple[str, Draft], ...]
    bad: tuple[BadLine, ...]


def write_notes(notes: Iterable[Note], target: Path, overwrite: bool = False) -> int:
    """Write notes to a file that appears whole or not at all; returns how many."""
    written = 0
    with publishing(target, overwrite) as sink:
        sink.write(_line({"format": jsonl.FORMAT, "version": jsonl.VERSION}))
        for note in notes:
            bare = replace(note, run=None, step=None)
            sink.write(_line({"type": "note", **plain.note_to_plain(bare)}))
            written += 1
    return written


def read_notes(path: Path, most_trust: float = 1.0) -> ReadNotes:
    """Read the notes of a file; their trust is `most_trust` at most. Other records are passed over.

    BadFile where it is not a file of this format.
    """
    drafts: list[tuple[str, Draft]] = []
    bad: list[BadLine] = []
    try:
        with path.open("rb") as file:
            for item in jsonl.read(path, file, DEFAULT_LIMITS):
                if isinstance(item, BadLine):
                    bad.append(item)
                    continue
                for note in item.notes:
                    try:
                        draft = draft_of(note)
                        trust = min(draft.trust, most_trust)
                        drafts.append((note.workspace, replace(draft, trust=trust)))
                    except InvalidRecord as error:
                        bad.append(bad_line(item.line, error))
    except OSError as error:
        raise BadFile(path, f"it cannot be read ({error.strerror or error})") from error
    return ReadNotes(tuple(drafts), tuple(bad))


def _line(value: plain.Plain) -> bytes:
    return canonical_json(value).encode("utf-8") + b"\n"

"""Notes in files: out and in again, with trust bounded and bad lines named."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.errors import BadFile, WouldOverwrite
from recollect.notes.files import read_notes, write_notes
from recollect.notes.note import Draft, NoteKind, draft_of
from recollect.types import RunId, TaskKey

NOTES = [
    Draft("one </EXP> {0.__class__}\0", "ünï", NoteKind.SUCCESS, "me", 0.9).note(
        "a", RunId("r"), 4
    ),
    Draft("two", tasks=(TaskKey("k"),)).note("b"),
]


def test_notes_survive_a_file(tmp_path: Path) -> None:
    target = tmp_path / "notes.jsonl"
    assert write_notes(NOTES, target) == 2
    read = read_notes(target)
    assert read.drafts == (("a", draft_of(NOTES[0])), ("b", draft_of(NOTES[1])))
    assert read.bad == ()
    with pytest.raises(WouldOverwrite):
        write_notes(NOTES, target)
    assert write_notes(NOTES[:1], target, overwrite=True) == 1


def test_trust_is_bounded(tmp_path: Path) -> None:
    target = tmp_path / "notes.jsonl"
    write_notes(NOTES, target)
    assert [draft.trust for _, draft in read_notes(target, 0.5).drafts] == [0.5, 0.5]


def test_bad_lines_are_named_and_the_others_taken(tmp_path: Path) -> None:
    target = tmp_path / "notes.jsonl"
    write_notes(NOTES, target)
    with target.open("a") as file:
        file.write('{"type":"note","content":""}\nnonsense\n')
    read = read_notes(target)
    assert len(read.drafts) == 2
    assert [line.line for line in read.bad] == [4, 5]


def test_another_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "x"
    other.write_text("hello\n")
    with pytest.raises(BadFile):
        read_notes(other)
    with pytest.raises(BadFile):
        read_notes(tmp_path / "missing")

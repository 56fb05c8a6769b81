"""Drafts: what they refuse, and how they become notes and come back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recollect.errors import InvalidRecord
from recollect.notes.note import MOST_CHARS, Draft, NoteKind, draft_of, note_id, source_links
from recollect.types import LinkKind, RunId, TaskKey, TrajectoryId

DRAFT = Draft(
    "Look it up first.",
    "cancel a booking",
    NoteKind.COMPARISON,
    "rules",
    0.75,
    (TrajectoryId("t1"), TrajectoryId("t2"), TrajectoryId("t1")),
    (TaskKey("k1"),),
)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"content": " \n"}, "content"),
        ({"content": "x" * (MOST_CHARS + 1)}, "content"),
        ({"when_to_use": "x" * (MOST_CHARS + 1)}, "when_to_use"),
        ({"content": "\ud800"}, "content"),
        ({"trust": 1.5}, "trust"),
        ({"trust": float("nan")}, "trust"),
        ({"sources": (TrajectoryId("not an id"),)}, "sources"),
    ],
)
def test_a_draft_refuses(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        replace(DRAFT, **change)  # type: ignore[arg-type]
    assert caught.value.field == f"note.{field}"


def test_a_note_remembers_its_draft() -> None:
    note = DRAFT.note("shop", RunId("r"), 3)
    assert (note.workspace, note.run, note.step, note.trust) == ("shop", "r", 3, 0.75)
    assert draft_of(note) == DRAFT


def test_the_same_words_on_another_shelf_are_another_note() -> None:
    one, other = DRAFT.note("a").id, DRAFT.note("b").id
    assert one != other
    assert one == note_id("a", "cancel a booking", "Look it up first.")
    assert DRAFT.note("a", RunId("r"), 1).id == one, "who says it, and when, is not what it says"


def test_sources_become_links_of_the_step() -> None:
    links = source_links(DRAFT.note("shop", RunId("r"), 3))
    assert [(link.trajectory, link.kind, link.step) for link in links] == [
        ("t1", LinkKind.SOURCE, 3),
        ("t2", LinkKind.SOURCE, 3),
    ]

"""Injection and stripping: exact for any text, in any template, through real attempts."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
import pytest

from models.tokenizers_for_tests import TEMPLATES, shared_tokenizer
from recollect.envs.base import Opening, Score, ToolSpec, system, user
from recollect.errors import InvalidRecord
from recollect.models.chat import Chat
from recollect.notes.inject import Guidance, NoteTemplate, PromptNote
from recollect.notes.note import Draft
from recollect.notes.strip import has_notes, stripped
from recollect.rollout.episode import Attempt, Limits, Request
from recollect.trajectory import Trajectory
from recollect.types import (
    GroupId,
    NoteId,
    Origin,
    RunId,
    Sampling,
    SegmentKind,
    Task,
    TrajectoryId,
)

from .hostile import payloads

SEED = "\n\nSome Related Experience to help you to complete the task:<EXP>{}</EXP>"
PAYLOADS = payloads()
PLACES = ("user", "system")
OPENING = Opening((system("You are a desk."), user("Cancel my flight B4K7.")), (ToolSpec("seat"),))


@cache
def chat_of(name: str) -> Chat:
    if name == "tiny":
        from transformers import AutoTokenizer

        from recollect.models.catalog import TINY

        return Chat(AutoTokenizer.from_pretrained(str(TINY)))
    return Chat(shared_tokenizer(name))


def special_ids(chat: Chat) -> set[int]:
    added = getattr(chat.tokenizer, "added_tokens_decoder", {})
    return {*chat.tokenizer.all_special_ids, *(i for i, t in added.items() if t.special)}


def attempt(
    chat: Chat, guidance: Guidance, opening: Opening, tokens: int = 100_000, positions: int = 0
) -> Trajectory:
    """Play a turn of three tokens through the real attempt, and seal it."""
    task = Task("env", "t")
    request = Request(TrajectoryId("id"), task, RunId("r"), 1, GroupId("g"), 0, 0, 0, guidance)
    made = Attempt(request, None, chat, Limits(tokens, 8, 3, positions), opening)  # type: ignore[arg-type]
    for token in (5, 6, chat.stop_ids[0]):
        made.row.take(token, -0.5, 0.25)
    made.end_turn()
    return made.trajectory(Score(1.0, True), Sampling(), ("tok", "1", "1"), (0.0, 1.0))


def same(one: Trajectory, other: Trajectory) -> bool:
    return (
        np.array_equal(one.tokens, other.tokens)
        and np.array_equal(one.sampled, other.sampled)
        and [(s.kind, s.text) for s in one.segments] == [(s.kind, s.text) for s in other.segments]
        and np.array_equal(np.asarray(one.logprobs), np.asarray(other.logprobs))
        and one.notes == other.notes
        and one.origin is other.origin
    )


def check(chat: Chat, texts: list[str], place: Literal["user", "system"], opening: Opening) -> None:
    """Strip(inject(x)) == x, no special ids in the notes, and the same masks."""
    drafts = [Draft(text or "-").note("d") for text in texts]
    guidance = Guidance(NoteTemplate.parse(SEED).wrap(drafts), place)
    bare = attempt(chat, Guidance(), opening)
    guided = attempt(chat, guidance, opening)
    assert same(stripped(guided), bare)
    assert guided.origin is Origin.GUIDED
    assert has_notes(guided)
    notes = [s for s in guided.segments if s.kind is SegmentKind.NOTE]
    assert [span.note for span in guided.notes] == [draft.id for draft in drafts]
    assert [(span.start, span.end) for span in guided.notes] == [(s.start, s.end) for s in notes]
    inside = np.concatenate([guided.tokens[s.start : s.end] for s in notes])
    assert not special_ids(chat) & set(inside.tolist())
    assert not any(guided.sampled[s.start : s.end].any() for s in notes)
    assert guided.sampled.sum() == bare.sampled.sum() == 3
    # The text is all there: nothing was cut out of it, nothing put in.
    said = "".join(chat.decode(guided.tokens[s.start : s.end]) for s in notes)
    before, _, after = SEED.partition("{}")
    assert said == before + "\n".join(draft.content for draft in drafts) + after


@pytest.mark.parametrize("place", PLACES)
def test_500_hostile_notes_leave_no_trace(place: Any) -> None:
    """F27, with the built-in model's tokenizer: every payload goes in and comes out."""
    assert len(PAYLOADS) == 500
    chat = chat_of("tiny")
    for payload in PAYLOADS:
        if payload.strip():
            check(chat, [payload], place, OPENING)


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("place", PLACES)
def test_hostile_notes_in_every_template(name: str, place: Any) -> None:
    knows_system = name not in ("gemma", "mistral")
    opening = OPENING if knows_system else Opening((user("Cancel my flight B4K7."),))
    chat = chat_of(name)
    usable = [payload for payload in PAYLOADS if payload.strip() and "\0" not in payload]
    for first, second in zip(usable[::11], usable[5::11], strict=False):
        check(chat, [first, second], place, opening)


def test_notes_go_where_they_are_told() -> None:
    chat = chat_of("chatml")
    kinds = {
        place: [p.kind.value for p in chat.opening(OPENING, ["note"], place)] for place in PLACES
    }
    assert kinds["user"] == ["system", "user", "note", "assistant"]
    assert kinds["system"] == ["system", "note", "user", "assistant"]
    alone = chat.opening(Opening((user("hi"),)), ["note"], "system")
    assert [piece.kind.value for piece in alone] == ["user", "note", "assistant"]


def test_notes_that_leave_no_room_are_left_out() -> None:
    chat = chat_of("chatml")
    bare = attempt(chat, Guidance(), OPENING)
    long = Guidance((PromptNote(NoteId("n"), "word " * 500),))
    size = bare.tokens.size + 5
    row = attempt(chat, long, OPENING, size, positions=size)
    assert same(row, bare)
    assert row.origin is Origin.FRESH, "a row without notes counts as unguided"
    wide = attempt(chat, long, OPENING, size, positions=size + 5000)
    assert same(stripped(wide), bare), "notes do not take the room of the conversation"
    assert wide.origin is Origin.GUIDED


@pytest.mark.parametrize("text", ["", "no place", "{} and {}", "{0}"])
def test_a_template_needs_one_place(text: str) -> None:
    with pytest.raises(InvalidRecord, match="places for notes"):
        NoteTemplate.parse(text)


def test_other_braces_are_text() -> None:
    template = NoteTemplate.parse("{x} %s {{}}")
    (only,) = template.wrap([Draft("{} {0}").note("d")])
    assert only.text == "{x} %s {{} {0}}"


def test_several_notes_share_one_frame() -> None:
    notes = [Draft("one").note("d"), Draft("two").note("d")]
    assert [n.text for n in NoteTemplate.parse("<{}>").wrap(notes)] == ["<one", "\ntwo>"]
    assert NoteTemplate.parse("<{}>").wrap([]) == ()

"""Full-text search: it finds by words, obeys nothing in them, and forgets what left."""

from __future__ import annotations

import random

import pytest

from recollect.notes.note import Draft
from recollect.notes.retrieve import TextRetriever, similarity

from .conformance import RetrieverConformance

WORDS = [
    "seat",
    "window",
    "aisle",
    "booking",
    "cancel",
    "refund",
    "parcel",
    "late",
    "move",
    "flight",
    "bag",
    "meal",
    "plan",
]
NOTES = [
    Draft("Use the seat tool.", "change a seat").note("d"),
    Draft("Look up the booking, then cancel.", "cancel a booking").note("d"),
    Draft("Say sorry; seat of the parcel is late.", "a parcel is late").note("d"),
]


class TestPromises(RetrieverConformance):
    """Those that every index keeps."""

    @pytest.fixture
    def index(self) -> TextRetriever:
        return TextRetriever()


def filled() -> TextRetriever:
    found = TextRetriever()
    found.add(NOTES)
    return found


def test_the_best_note_comes_first() -> None:
    found = filled().search("Please CANCEL my booking B4K7", 3)
    assert found[0][0] == NOTES[1].id
    assert len(found) == 1, "notes without a common word are not answers"


def test_when_to_use_counts_more_than_content() -> None:
    found = filled().search("seat", 3)
    assert [id_ for id_, _ in found] == [NOTES[0].id, NOTES[2].id]
    assert found[0][1] > found[1][1]


def test_count_bounds_the_answer() -> None:
    assert len(filled().search("seat booking parcel", 2)) == 2
    assert filled().search("seat", 0) == []
    assert filled().search("?!", 3) == []


def test_a_question_is_never_a_query() -> None:
    index = filled()
    for hostile in ('seat" OR "x', "seat AND NOT", "NEAR(seat, 2)", "content: seat *", "^seat\0(("):
        assert NOTES[0].id in [id_ for id_, _ in index.search(hostile, 3)]


def test_a_ranking_depends_on_what_is_there_and_not_on_how_it_came_there() -> None:
    """Notes that were added and removed again leave no trace in the scores."""
    chance = random.Random(5)
    notes = [
        Draft(" ".join(chance.choices(WORDS, k=9)), " ".join(chance.choices(WORDS, k=3))).note("d")
        for _ in range(40)
    ]
    straight, winding = TextRetriever(), TextRetriever()
    straight.add(notes[:20])
    for note in reversed(notes):
        winding.add([note])
    winding.remove([note.id for note in notes[20:]])
    for word in WORDS:
        question = f"{word} {chance.choice(WORDS)}"
        assert straight.search(question, 10) == winding.search(question, 10)


def test_text_without_spaces_is_found_by_parts_of_it() -> None:
    index = TextRetriever()
    refund = Draft("先查订单再退款。", "顾客要求退款").note("d")
    seat = Draft("用座位工具。", "顾客想换座位").note("d")
    index.add([seat, refund])
    assert [note for note, _ in index.search("我的退款在哪里", 5)] == [refund.id]
    assert [note for note, _ in index.search("请把座位换到窗边 seat 12A", 5)] == [seat.id]
    assert index.search("包裹迟到", 5) == []
    assert similarity("要求退款", "要求换货") == pytest.approx(1 / 5)  # 要求, of five pairs


def test_similarity_is_the_share_of_common_words() -> None:
    assert similarity("Seat is free", "seat IS taken") == 0.5
    assert similarity("", "") == 1.0
    assert similarity("a", "b") == 0.0

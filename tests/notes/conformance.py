"""The promises of `recollect.notes.store_bank.StoreBank`, over whatever store and retrieval.

Subclass `BankConformance` in a test module that has a fixture `bank`: an empty, writable bank (see
test_store_bank.py). `RetrieverConformance` does the same for `recollect.notes.retrieve.Retriever`.
"""

from __future__ import annotations

import threading

import pytest

from recollect.errors import AmbiguousId, InvalidRecord, UnknownId
from recollect.note_ledger import NoteTrial
from recollect.notes.note import Draft
from recollect.notes.retrieve import Retriever
from recollect.notes.store_bank import StoreBank
from recollect.types import NoteAction, NoteId, NoteStatus

SEAT = Draft("Use the seat tool with the booking's id.", "change a seat", trust=0.4)
CANCEL = Draft("Look the booking up, then cancel it.", "cancel a booking")


def ids(bank: StoreBank, question: str, **more: object) -> list[NoteId]:
    """Search, and give the ids of what was found."""
    return [found.note.id for found in bank.search(question, 5, **more)]  # type: ignore[arg-type]


class BankConformance:
    """What a bank promises."""

    def test_a_workspace_is_a_shelf_of_its_own(self, bank: StoreBank) -> None:
        here = bank.add([SEAT], "air").notes[0].id
        there = bank.add([SEAT], "sea").notes[0].id
        assert here != there
        assert ids(bank, "a seat", workspace="air") == [here]
        assert ids(bank, "a seat", workspace="nowhere") == []
        assert [note.id for note in bank.notes("sea")] == [there]
        for nameless in ("", " "):
            with pytest.raises(InvalidRecord, match="workspace"):
                bank.add([SEAT], nameless)

    def test_what_is_known_is_not_added(self, bank: StoreBank) -> None:
        added = bank.add([SEAT, SEAT, CANCEL])
        assert (len(added.notes), added.duplicates) == (2, 1)
        nearly = Draft("Use the seat tool with the booking's id!", "Change a seat")
        assert bank.add([nearly, CANCEL]) == bank.add([CANCEL, nearly])
        assert bank.add([nearly]).notes == ()
        other = Draft("Never promise a refund before you know the fare.", "refunds")
        assert len(bank.add([other]).notes) == 1

    def test_a_banned_lesson_does_not_come_back(self, bank: StoreBank) -> None:
        note = bank.add([SEAT]).notes[0].id
        bank.mark([note], NoteAction.BAN, "poison")
        assert bank.status(note) is NoteStatus.BANNED
        assert ids(bank, "a seat") == []
        assert bank.add([SEAT]).duplicates == 1
        bank.mark([note], NoteAction.UNBAN, "")
        assert ids(bank, "a seat") == [note]
        assert bank.status(note) is NoteStatus.LIVE

    def test_the_end_of_a_ban_revives_nothing(self, bank: StoreBank) -> None:
        note = bank.add([SEAT]).notes[0].id
        for action in (NoteAction.RETIRE, NoteAction.BAN, NoteAction.BAN, NoteAction.UNBAN):
            bank.mark([note], action, "")
        assert bank.status(note) is NoteStatus.RETIRED
        assert ids(bank, "a seat") == []
        bank.mark([note], NoteAction.UNBAN, "")
        assert bank.status(note) is NoteStatus.RETIRED
        for action in (NoteAction.BAN, NoteAction.REVIVE, NoteAction.BAN, NoteAction.UNBAN):
            bank.mark([note], action, "")
        assert bank.status(note) is NoteStatus.LIVE

    def test_trust_and_exclusion_narrow_the_answer(self, bank: StoreBank) -> None:
        seat, cancel = (note.id for note in bank.add([SEAT, CANCEL]).notes)
        assert set(ids(bank, "booking")) == {seat, cancel}
        assert ids(bank, "booking", min_trust=0.5) == [cancel]
        assert ids(bank, "booking", without=[cancel]) == [seat]

    def test_credit_is_summed_over_groups(self, bank: StoreBank) -> None:
        seat, cancel = (note.id for note in bank.add([SEAT, CANCEL]).notes)
        bank.record([NoteTrial(seat, "g1", 4, 3, 4, 1), NoteTrial(seat, "g2", 2, 2, 2, 1)])
        bank.record([NoteTrial(cancel, "g1", 6, 0)])
        assert (bank.credit(seat).rate, bank.credit(seat).bare_rate) == (5 / 6, 2 / 6)
        assert bank.credit(seat).share == 0.5
        assert bank.credit(NoteId("none")).rows == 0

    def test_a_shortened_id(self, bank: StoreBank) -> None:
        note = bank.add([SEAT]).notes[0].id
        assert bank.resolve(note[:6]) == note
        with pytest.raises(UnknownId, match="notes ls"):
            bank.resolve("zz")
        with pytest.raises(UnknownId):
            bank.resolve("")
        bank.add([Draft(f"{n * 7919} {n * 104729}") for n in range(40)])
        firsts = [note.id[0] for note in bank.notes()]
        shared = next(first for first in firsts if firsts.count(first) > 1)
        with pytest.raises(AmbiguousId):
            bank.resolve(shared)

    def test_threads_share_a_bank(self, bank: StoreBank) -> None:
        bank.add([SEAT])
        problems: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for turn in range(10):
                    assert ids(bank, "seat")
                    bank.add([Draft(f"lesson {number} {turn} {number * 31 + turn} seat")])
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []


class RetrieverConformance:
    """What every index of notes promises."""

    def test_what_was_added_is_found_and_what_was_removed_is_not(self, index: Retriever) -> None:
        notes = [SEAT.note("d"), CANCEL.note("d")]
        index.add(notes)
        assert index.search("cancel a booking", 1)[0][0] == notes[1].id
        index.remove([notes[1].id])
        assert notes[1].id not in [id_ for id_, _ in index.search("cancel a booking", 5)]
        index.add([notes[1]])
        assert index.search("cancel a booking", 1)[0][0] == notes[1].id

    def test_the_best_comes_first_and_no_more_than_asked_for(self, index: Retriever) -> None:
        index.add([SEAT.note("d"), CANCEL.note("d")])
        found = index.search("change a seat of a booking", 5)
        assert [score for _, score in found] == sorted((s for _, s in found), reverse=True)
        assert len(index.search("change a seat of a booking", 1)) <= 1
        assert index.search("change a seat", 0) == []

    def test_nothing_answers_for_nothing(self, index: Retriever) -> None:
        assert index.search("anything", 5) == []
        index.add([SEAT.note("d")])
        assert index.search("", 5) == []

"""The bank in a store: found, once, banned for good, undone with its step."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from factories import FakeRun
from recollect.errors import AmbiguousId, StoreReadOnly, UnknownId
from recollect.note_ledger import NoteTrial
from recollect.notes.note import Draft
from recollect.notes.store_bank import StoreBank
from recollect.store import open_reader, open_store
from recollect.store.sqlite import SqliteStore
from recollect.types import LinkKind, NoteAction, NoteId, NoteStatus, RunId, TrajectoryId

SEAT = Draft("Use the seat tool with the booking's id.", "change a seat", trust=0.4)
CANCEL = Draft("Look the booking up, then cancel it.", "cancel a booking")
RUN = RunId("r")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "bank.db") as store:
        store.commit(FakeRun(id=RUN).setup())
        yield store


@pytest.fixture
def bank(store: SqliteStore) -> StoreBank:
    return StoreBank(store)


def ids(bank: StoreBank, question: str, **more: object) -> list[NoteId]:
    return [found.note.id for found in bank.search(question, 5, **more)]  # type: ignore[arg-type]


def test_a_workspace_is_a_shelf_of_its_own(bank: StoreBank) -> None:
    here = bank.add([SEAT], "air").notes[0].id
    there = bank.add([SEAT], "sea").notes[0].id
    assert here != there
    assert ids(bank, "a seat", workspace="air") == [here]
    assert ids(bank, "a seat", workspace="nowhere") == []
    assert bank.workspaces() == ["air", "sea"]
    assert [note.id for note in bank.notes("sea")] == [there]


def test_what_is_known_is_not_added(bank: StoreBank) -> None:
    added = bank.add([SEAT, SEAT, CANCEL])
    assert (len(added.notes), added.duplicates) == (2, 1)
    nearly = Draft("Use the seat tool with the booking's id!", "Change a seat")
    assert bank.add([nearly, CANCEL]) == bank.add([CANCEL, nearly])
    assert bank.add([nearly]).notes == ()
    other = Draft("Never promise a refund before you know the fare.", "refunds")
    assert len(bank.add([other]).notes) == 1


def test_a_banned_lesson_does_not_come_back(bank: StoreBank, store: SqliteStore) -> None:
    note = bank.add([SEAT]).notes[0].id
    bank.mark([note], NoteAction.BAN, "poison")
    assert bank.status(note) is NoteStatus.BANNED
    assert ids(bank, "a seat") == []
    assert bank.add([SEAT]).duplicates == 1
    bank.mark([note], NoteAction.UNBAN, "")
    assert ids(bank, "a seat") == [note]
    assert [mark.action for mark in store.note_marks(note)] == [NoteAction.BAN, NoteAction.UNBAN]


def test_trust_and_exclusion_narrow_the_answer(bank: StoreBank) -> None:
    seat, cancel = (note.id for note in bank.add([SEAT, CANCEL]).notes)
    assert set(ids(bank, "booking")) == {seat, cancel}
    assert ids(bank, "booking", min_trust=0.5) == [cancel]
    assert ids(bank, "booking", without=[cancel]) == [seat]


def test_a_fenced_step_takes_its_notes_and_marks_along(bank: StoreBank, store: SqliteStore) -> None:
    early = bank.add([SEAT], run=RUN, step=1).notes[0].id
    late = bank.add([CANCEL], run=RUN, step=3).notes[0].id
    bank.mark([early], NoteAction.RETIRE, "no help", RUN, 3)
    bank.record([NoteTrial(early, "g", 2, 1, 2, 0, RUN, 3)])
    assert ids(bank, "booking") == [late]
    scores = [found.score for found in StoreBank(store).search("seat", 5)]
    store.fence(RUN, 2, "resumed")
    assert ids(bank, "booking") == [early]
    assert bank.credit(early).rows == 0
    with pytest.raises(UnknownId):
        bank.get(late)
    again = bank.add([CANCEL], run=RUN, step=3).notes[0].id
    assert again == late
    assert scores == []
    assert list(store.verify()) == []


def test_sources_are_linked_both_ways(bank: StoreBank, store: SqliteStore) -> None:
    source = TrajectoryId("t7")
    note = bank.add([Draft("x", sources=(source,))]).notes[0].id
    (link,) = store.links(trajectory=source)
    assert (link.note, link.kind) == (note, LinkKind.SOURCE)


def test_credit_is_summed_over_groups(bank: StoreBank) -> None:
    seat, cancel = (note.id for note in bank.add([SEAT, CANCEL]).notes)
    bank.record([NoteTrial(seat, "g1", 4, 3, 4, 1), NoteTrial(seat, "g2", 2, 2, 2, 1)])
    bank.record([NoteTrial(cancel, "g1", 6, 0)])
    assert (bank.credit(seat).rate, bank.credit(seat).bare_rate) == (5 / 6, 2 / 6)
    assert bank.credit(seat).share == 0.5
    assert bank.credit(NoteId("none")).rows == 0


def test_a_shortened_id(bank: StoreBank) -> None:
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


def test_a_reader_sees_what_others_write_and_writes_nothing(
    bank: StoreBank, store: SqliteStore
) -> None:
    with open_reader(store.path) as reader:
        theirs = StoreBank(reader)
        assert ids(theirs, "seat") == []
        note = bank.add([SEAT]).notes[0].id
        assert ids(theirs, "seat") == [note]
        bank.mark([note], NoteAction.BAN, "")
        assert ids(theirs, "seat") == []
        with pytest.raises(StoreReadOnly, match="reading"):
            theirs.add([CANCEL])


def test_threads_share_a_bank(bank: StoreBank) -> None:
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

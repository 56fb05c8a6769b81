"""The bank in a store: found, once, banned for good, undone with its step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from factories import FakeRun
from recollect.errors import StoreReadOnly, UnknownId
from recollect.note_ledger import NoteTrial
from recollect.notes.note import Draft
from recollect.notes.store_bank import StoreBank
from recollect.store import open_reader, open_store
from recollect.store.sqlite import SqliteStore
from recollect.types import LinkKind, NoteAction, RunId, TrajectoryId

from .conformance import CANCEL, SEAT, BankConformance, ids

RUN = RunId("r")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "bank.db") as store:
        store.commit(FakeRun(id=RUN).setup())
        yield store


@pytest.fixture
def bank(store: SqliteStore) -> StoreBank:
    return StoreBank(store)


class TestPromises(BankConformance):
    """Those that every bank keeps."""


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

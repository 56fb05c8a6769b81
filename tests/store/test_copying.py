"""Copying stores, between all pairs of SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from factories import FakeRun, make_trajectory, person_mark
from postgres_server import new_address
from recollect.errors import SameStore, StoreLocked, StoreMissing, StoreNotEmpty
from recollect.ledger import Note
from recollect.proof.logical import logical_dump
from recollect.store import open_reader, open_store
from recollect.store.address import Place, PostgresAddress
from recollect.store.copying import copy_store
from recollect.store.records import Batch
from recollect.types import Action, NoteId, RunId
from store.place import ANY, write_steps

FAKE = FakeRun(seed=61)
OTHER = FakeRun(seed=62, id=RunId("run-b"))
PAIRS = [(a, b) for a in ("sqlite", "postgres") for b in ("sqlite", "postgres")]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, list[Place]]]:
    """Two new places of each kind."""
    with ExitStack() as stack:
        yield {
            "sqlite": [tmp_path / "a.db", tmp_path / "b.db"],
            "postgres": _Lazy(stack),  # type: ignore[dict-item]
        }


class _Lazy:
    """Addresses that are only made, and the server started, when they are needed."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def __getitem__(self, _: int) -> PostgresAddress:
        return self._stack.enter_context(new_address())


def fill(place: Place, compress: bool = False) -> None:
    """Something of everything: fences, evictions, reclaimed rows, notes, odd numbers."""
    with open_store(place, compress=compress) as store:
        write_steps(store, FAKE, 5)
        write_steps(store, OTHER, 3)
        store.fence(FAKE.id, 2, "resume")
        store.commit(FAKE.step(3, variant=1))
        store.commit(Batch(marks=[person_mark(FAKE.row_id(0, 2), Action.EVICT)]))
        store.reclaim()
        store.commit(Batch(trajectories=[make_trajectory(5, step=9)]))
        store.commit(Batch(marks=[person_mark(make_trajectory(5, step=9).id, Action.EVICT)]))
        store.reclaim()  # the newest row goes: its number must not come back
        store.commit(Batch(notes=[Note(NoteId("n"), "con\0tent", trust=-0.0)]))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_copy_is_the_store(places: dict[str, list[Place]], first: str, second: str) -> None:
    source, target = places[first][0], places[second][1]
    fill(source, compress=second == "postgres")
    report = copy_store(source, target)
    assert report.findings == ()
    with open_reader(source) as a, open_reader(target) as b:
        assert logical_dump(a) == logical_dump(b)
        assert a.rows(ANY, limit=99) == b.rows(ANY, limit=99)
        assert a.changes(None).change == b.changes(None).change
        assert a.stats().fenced == b.stats().fenced == 8
        assert report.trajectories == a.stats().trajectories + a.stats().fenced
    for place in (source, target):  # both go on alike
        with open_store(place) as store:
            store.commit(Batch(trajectories=FAKE.trajectories(6)))
    with open_reader(source) as a, open_reader(target) as b:
        assert [row.seq for row in a.rows(ANY, limit=99).rows] == [
            row.seq for row in b.rows(ANY, limit=99).rows
        ]
        assert list(b.verify()) == []


def test_there_must_be_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "a.db")
    copy_store(tmp_path / "a.db", tmp_path / "b.db")
    with pytest.raises(StoreNotEmpty, match="not empty"):
        copy_store(tmp_path / "a.db", tmp_path / "b.db")
    with pytest.raises(StoreMissing):
        copy_store(tmp_path / "none.db", tmp_path / "c.db")
    assert not (tmp_path / "c.db").exists()
    open_store(tmp_path / "empty.db").close()
    assert copy_store(tmp_path / "a.db", tmp_path / "empty.db").trajectories > 0


def test_a_store_is_not_copied_onto_itself(tmp_path: Path) -> None:
    path, link = tmp_path / "a.db", tmp_path / "link.db"
    open_store(path).close()
    link.symlink_to(path)
    for target in (path, link, tmp_path / "b" / ".." / "a.db"):
        with pytest.raises(SameStore, match="onto itself"):
            copy_store(path, target)


def test_a_file_that_is_being_written_is_not_read_for_long(tmp_path: Path) -> None:
    fill(tmp_path / "a.db")
    with open_store(tmp_path / "a.db"), pytest.raises(StoreLocked):
        copy_store(tmp_path / "a.db", tmp_path / "b.db")
    copy_store(tmp_path / "a.db", tmp_path / "b.db")


def test_damage_is_copied_and_told(tmp_path: Path) -> None:
    fill(tmp_path / "a.db")
    with sqlite3.connect(tmp_path / "a.db") as edit:
        edit.execute("UPDATE payloads SET frame = x'00' WHERE seq = 1")
    edit.close()
    report = copy_store(tmp_path / "a.db", tmp_path / "b.db")
    assert [finding.where.split()[0] for finding in report.findings] == ["trajectory"]


def test_a_kill_half_way_leaves_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stops a copy stops it whole; doing it again then works."""
    from recollect.store.tables import copying

    fill(tmp_path / "a.db")
    real, calls = copying._extended, iter(range(100))

    def failing(crc: int, block: object) -> int:
        if next(calls) == 5:
            raise KeyboardInterrupt
        return real(crc, block)  # type: ignore[arg-type]

    monkeypatch.setattr(copying, "_extended", failing)
    with pytest.raises(KeyboardInterrupt):
        copy_store(tmp_path / "a.db", tmp_path / "b.db")
    monkeypatch.undo()
    with open_reader(tmp_path / "b.db") as half:
        assert half.stats().trajectories == half.stats().runs == 0
    assert copy_store(tmp_path / "a.db", tmp_path / "b.db").findings == ()

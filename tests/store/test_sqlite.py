"""The SQLite store through the conformance suite, in each way it can be set up, and beyond it."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from factories import LARGE, FakeRun, make_trajectory
from memory import folder_in_memory
from recollect.errors import (
    BadQuery,
    MissingExtra,
    NotAStore,
    StoreFailed,
    StoreLocked,
    StoreMissing,
    StoreReadOnly,
)
from recollect.proof.logical import logical_dump
from recollect.store import open_reader, open_store
from recollect.store.records import Batch
from recollect.store.sqlite import SqliteReader, SqliteStore, person
from store.conformance import StoreConformance
from store.place import ANY, write_steps

FAKE = FakeRun(seed=21)


@dataclass(frozen=True)
class SqlitePlace:
    """One SQLite file, opened in one way."""

    path: Path
    journal: str
    compress: bool

    def writer(self) -> SqliteStore:
        return SqliteStore(self.path, journal=self.journal, compress=self.compress)

    def reader(self) -> SqliteReader:
        return open_reader(self.path)


WAYS = {
    "truncate": ("truncate", False),
    "wal": ("wal", False),
    "compressed": ("truncate", True),
}


class TestSqlite(StoreConformance):
    """Every promise, in every way."""

    @pytest.fixture(params=WAYS)
    def place(self, request: pytest.FixtureRequest) -> Iterator[SqlitePlace]:
        journal, compress = WAYS[request.param]
        with folder_in_memory() as folder:
            yield SqlitePlace(folder / "pool.db", journal, compress)

    def test_a_second_writer_is_refused(self, place: SqlitePlace, store: SqliteStore) -> None:
        with pytest.raises(StoreLocked) as caught:
            place.writer()
        assert caught.value.owner
        store.commit(FAKE.setup())
        store.close()
        second = place.writer()
        assert {run.id for run in second.runs().values()} == {FAKE.id}
        second.close()


@pytest.fixture
def path() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder / "pool.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with open_store(path) as store:
        yield store


# -- how it is set up ------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_fully_durable(path: Path, way: str) -> None:
    """Asks the live connection: FULL is 2, and the journal is the one we meant."""
    journal, compress = WAYS[way]
    with SqliteStore(path, journal=journal, compress=compress) as store:
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert store._connection.execute("PRAGMA journal_mode").fetchone() == (journal,)
        assert store.stats().journal == journal
        with open_reader(path) as reader:
            assert reader.stats().journal == journal
    with open_reader(path) as reader:
        assert reader.stats().journal == journal


def test_the_clock_can_be_set_and_may_tick_in_whole_numbers(path: Path) -> None:
    with SqliteStore(path, clock=lambda: 7) as store:
        write_steps(store, FAKE, 3)
        assert {row.created for row in store.rows(ANY, limit=99).rows} == {7.0}
        assert list(store.verify()) == []


def test_switching_compression_does_not_make_records_differ(path: Path) -> None:
    row = make_trajectory(1, tokens=LARGE)
    for compress, added in ((False, 1), (True, 0), (False, 0)):
        with open_store(path, compress=compress) as store:
            store.commit(FAKE.setup())
            assert store.commit(Batch(trajectories=[row])).added == added


def test_switching_the_journal_keeps_everything(path: Path) -> None:
    dumps = []
    for step, journal in enumerate(("truncate", "wal", "truncate", "wal")):
        with SqliteStore(path, journal=journal) as store:
            if step == 0:
                write_steps(store, FAKE, 3)
            dumps.append(logical_dump(store))
            assert list(store.verify()) == []
    assert dumps[1:] == dumps[:-1]


@pytest.mark.parametrize("journal", ["memory", "off", "delete", "persist", "nonsense"])
def test_a_journal_that_is_not_durable_is_refused(path: Path, journal: str) -> None:
    with pytest.raises(StoreFailed, match="journal"):
        SqliteStore(path, journal=journal)
    open_store(path).close()


def test_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "pool.db"
    with open_store(path) as store:
        store.commit(FAKE.setup())
    with open_reader(path) as reader:
        assert [run.id for run in reader.runs().values()] == [FAKE.id]


def test_compact_gives_space_back_and_loses_nothing(path: Path) -> None:
    with open_store(path) as store:
        write_steps(store, FakeRun(seed=3, tokens=LARGE, rows=8), 8)
        store.fence(FAKE.id, 0, "test")
        store.reclaim(fenced=True)
        before, size = logical_dump(store), path.stat().st_size
        store.compact()
        assert path.stat().st_size < size / 2
        assert logical_dump(store) == before
        assert list(store.verify()) == []


# -- what is not a store ---------------------------------------------------------------------


def listing(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@pytest.mark.parametrize(
    "content", [b"just some text, long enough to look at", b"x", b"SQLite format 3", b"\0" * 4096]
)
def test_a_foreign_file_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for opener in (open_store, open_reader):
        with pytest.raises(NotAStore, match="SQLite"):
            opener(path)
    assert listing(path.parent) == {path.name: content}


def test_a_foreign_sqlite_file_is_refused_and_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text)")
    connection.close()
    before = listing(path.parent)
    for opener in (open_store, open_reader):
        with pytest.raises(NotAStore, match="another program"):
            opener(path)
    assert listing(path.parent) == before


@pytest.mark.parametrize("name", [".", "/", "", "/dev/null", "x" * 300, "a\0b"])
def test_odd_paths_are_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises((NotAStore, StoreReadOnly)):
        open_store(name)
    with pytest.raises((NotAStore, StoreMissing)):
        open_reader(name)


def test_a_folder_is_refused_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    with pytest.raises(NotAStore, match="folder"):
        open_store(tmp_path / "pool")
    assert [file.name for file in tmp_path.iterdir()] == ["pool"]


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises((StoreReadOnly, NotAStore)):
        open_store(tmp_path / "file" / "pool.db")
    with pytest.raises((StoreMissing, NotAStore)):
        open_reader(tmp_path / "file" / "pool.db")


def test_reading_what_is_missing_makes_nothing(path: Path) -> None:
    with pytest.raises(StoreMissing):
        open_reader(path)
    assert list(path.parent.iterdir()) == []


# -- a person's SQL ----------------------------------------------------------------------------


def test_sql_reads(store: SqliteStore) -> None:
    write_steps(store, FAKE, 2)
    names, found = store.sql("SELECT task, count(*) AS n FROM pool GROUP BY 1 ORDER BY 1")
    assert names == ["task", "n"]
    assert sum(int(str(row[1])) for row in found) == 8
    assert len(store.sql("SELECT id FROM pool", limit=3)[1]) == 3


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM trajectories",
        "UPDATE meta SET value = 0",
        "INSERT INTO runs (id) VALUES ('x')",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "DROP TABLE runs",
        "PRAGMA journal_mode = off",
        "PRAGMA user_version = 9",
        "PRAGMA query_only = off",
        "ATTACH DATABASE '/tmp/x.db' AS x",
        "VACUUM INTO '/tmp/x.db'",
        "BEGIN IMMEDIATE",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM runs",
        "WITH t AS (SELECT 1) DELETE FROM runs",
        "REINDEX",
        "SELEC 1",
        "SELECT ?",
        "",
        "-- nothing",
        "SELECT '\ud800'",
        "SELECT 1\0; DROP TABLE runs",
        "SELECT * FROM nowhere",
    ],
)
def test_sql_cannot_write_and_says_why(store: SqliteStore, query: str) -> None:
    write_steps(store, FAKE, 1)
    before = logical_dump(store)
    with pytest.raises(BadQuery):
        store.sql(query)
    assert logical_dump(store) == before
    assert list(store.verify()) == []


def test_sql_that_never_ends_is_stopped(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(person, "_SECONDS", 0.2)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    with pytest.raises(BadQuery, match="longer than"):
        store.sql(endless)


def test_compression_without_its_package_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtra, match="zstd"):
        SqliteStore(tmp_path / "new" / "pool.db", compress=True)
    assert list(tmp_path.iterdir()) == []

"""Schemas: newer ones are refused untouched, interrupted ones leave the old one whole."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from factories import FakeRun
from recollect.errors import NotAStore, StoreDamaged, StoreMissing, StoreTooNew, StoreTooOld
from recollect.proof.logical import logical_dump
from recollect.store import open_reader, open_store
from recollect.store.sqlite import SqliteStore
from recollect.store.tables import migrations, schema
from recollect.store.tables.database import Database
from reporting import report
from store.place import write_steps

FAKE = FakeRun(seed=71)
NEXT = schema.SCHEMA + 1


def raw(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def user_version(path: Path) -> int:
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(version)


def listing(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pool.db"


@pytest.fixture
def filled(path: Path) -> Path:
    with open_store(path) as store:
        write_steps(store, FAKE, 3)
    return path


# -- newer, older, impossible ------------------------------------------------------------------


@pytest.mark.parametrize("made_with", ["truncate", "wal"])
@pytest.mark.parametrize("opened_with", ["truncate", "wal"])
def test_a_newer_schema_is_refused_byte_for_byte(
    path: Path, made_with: str, opened_with: str
) -> None:
    with SqliteStore(path, journal=made_with) as store:
        write_steps(store, FAKE, 2)
    raw(path, f"PRAGMA user_version = {schema.SCHEMA + 1}")
    (path.parent / "pool.db.lock").unlink()
    before = listing(path.parent)
    with pytest.raises(StoreTooNew, match="Update Recollect with: git"):
        SqliteStore(path, journal=opened_with)
    with pytest.raises(StoreTooNew):
        open_reader(path)
    after = listing(path.parent)
    assert {name: data for name, data in after.items() if data or name in before} == before


def test_a_reader_does_not_migrate(filled: Path) -> None:
    raw(filled, "PRAGMA user_version = 0")
    with pytest.raises(StoreTooOld, match="migrate"):
        open_reader(filled)
    assert user_version(filled) == 0


@pytest.mark.parametrize("number", [-1, -(2**31)])
def test_an_impossible_schema_number_is_damage(filled: Path, number: int) -> None:
    raw(filled, f"PRAGMA user_version = {number}")
    for opener in (open_store, open_reader):
        with pytest.raises(StoreDamaged, match="schema number"):
            opener(filled)


# -- blank and half-made files -----------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", None])
def test_a_blank_file_becomes_a_store(path: Path, content: bytes | None) -> None:
    if content is None:
        raw(path, "PRAGMA page_size = 4096", "VACUUM")  # a header and nothing else
        assert path.stat().st_size > 0
    else:
        path.write_bytes(content)
    with pytest.raises(StoreMissing):
        open_reader(path)
    with open_store(path) as store:
        write_steps(store, FAKE, 2)
        assert list(store.verify()) == []
    assert user_version(path) == schema.SCHEMA


def test_tables_of_another_program_are_not_touched(path: Path) -> None:
    raw(path, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)")
    before = listing(path.parent)
    with pytest.raises(NotAStore):
        open_store(path)
    assert listing(path.parent) == before


def test_an_application_id_of_another_program_is_respected(path: Path) -> None:
    raw(path, "PRAGMA application_id = 1196444487")
    for opener in (open_store, open_reader):
        with pytest.raises(NotAStore):
            opener(path)


STATEMENTS = (*schema.DDL_1, *schema.DDL_2)


@pytest.mark.parametrize("journal", ["truncate", "wal"])
def test_creation_interrupted_between_statements(path: Path, journal: str) -> None:
    """Killed before one statement or another, it is not there; opening again makes it whole."""
    first, last = len(schema.DDL_1), len(STATEMENTS)
    for statement in (*range(0, last, 5), first - 1, first, first + 1, last - 1, last, last + 1):
        for file in path.parent.iterdir():
            file.unlink()
        status = in_child(lambda at=statement: make_until(path, journal, at))
        assert os.WIFSIGNALED(status) == (statement <= last)
        if statement <= last:
            with pytest.raises(StoreMissing):
                open_reader(path)
        with SqliteStore(path, journal=journal) as store:
            assert list(store.verify()) == []
            assert store.stats().trajectories == 0


def make_until(path: Path, journal: str, statement: int) -> None:
    """Create a store, dying before the given one of all statements, or behind the last."""
    places = iter(range(len(STATEMENTS)))

    def dying(texts: Sequence[str], connection: Database) -> None:
        for text, number in zip(texts, places, strict=False):
            if number == statement:
                os.kill(os.getpid(), signal.SIGKILL)
            connection.define(text)

    def dying_last(connection: Database) -> None:
        dying(schema.DDL_2, connection)
        if statement == len(STATEMENTS):
            os.kill(os.getpid(), signal.SIGKILL)

    migrations.MIGRATIONS = (partial(dying, schema.DDL_1), dying_last)
    SqliteStore(path, journal=journal).close()


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked child to its end; returns its wait status."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1]


# -- every schema there was -----------------------------------------------------------------------


def test_a_store_of_the_first_schema_learns_about_notes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before notes had marks is there afterwards, and they can be marked."""
    first = replace(FAKE.step(0), note_marks=(), note_trials=(), distillations=())
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:1])
        patch.setattr(migrations, "SCHEMA", 1)
        with open_store(path) as store:
            store.commit(FAKE.setup())
            store.commit(first)
    assert user_version(path) == 1
    with open_store(path) as store:
        assert store.notes() == list(first.notes)
        assert store.note_trials() == []
        store.commit(FAKE.step(0))
        store.commit(FAKE.step(1))
        assert len(store.note_trials()) == 1
        assert list(store.verify()) == []


# -- the next schema, as it will come one day ----------------------------------------------------


def coming(connection: sqlite3.Connection) -> None:
    """Touch every row, so that a kill finds it at work."""
    connection.execute("ALTER TABLE trajectories ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")
    connection.execute("UPDATE trajectories SET colour = 'blue'")
    connection.execute("CREATE TABLE extra (x)")
    connection.execute("INSERT INTO extra SELECT seq FROM trajectories")


@pytest.fixture
def another_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, coming))
    monkeypatch.setattr(migrations, "SCHEMA", NEXT)


def test_an_old_store_is_migrated_once_and_keeps_everything(
    filled: Path, request: pytest.FixtureRequest
) -> None:
    with open_reader(filled) as reader:
        before = logical_dump(reader)
    request.getfixturevalue("another_schema")
    with pytest.raises(StoreTooOld):
        open_reader(filled)
    for _ in range(2):
        with open_store(filled) as store:
            assert logical_dump(store) == before
            assert store.sql("SELECT count(*) FROM extra")[1] == [(12,)]
    assert user_version(filled) == NEXT


def test_a_migration_that_fails_changes_nothing(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(connection: sqlite3.Connection) -> None:
        coming(connection)
        raise RuntimeError("half way")

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, broken))
        patch.setattr(migrations, "SCHEMA", NEXT)
        with pytest.raises(RuntimeError, match="half way"):
            open_store(filled)
    assert user_version(filled) == schema.SCHEMA
    with open_store(filled) as store:
        assert list(store.verify()) == []


@pytest.mark.parametrize("journal", ["truncate", "wal"])
def test_a_kill_during_a_migration_leaves_one_schema_or_the_other(
    filled: Path, journal: str, request: pytest.FixtureRequest
) -> None:
    """SIGKILL after growing delays; in the end both outcomes must have been seen."""
    original = filled.read_bytes()
    request.getfixturevalue("another_schema")
    outcomes = {schema.SCHEMA: 0, NEXT: 0}
    seconds = 0.0
    while min(outcomes.values()) < 2:
        for file in filled.parent.iterdir():
            file.unlink()
        filled.write_bytes(original)
        killed_after(seconds, lambda: SqliteStore(filled, journal=journal).close())
        version = user_version(filled)
        outcomes[version] += 1
        with SqliteStore(filled, journal=journal) as store:
            assert store.sql("SELECT DISTINCT colour FROM trajectories")[1] == [("blue",)]
            assert store.get(FAKE.ids(2)) == FAKE.trajectories(2)
        seconds = seconds + 0.003 if version < NEXT else seconds / 2
        assert sum(outcomes.values()) < 500
    before, after = outcomes.values()
    report(f"migration ({journal}): {before} kills before, {after} after the commit")


def killed_after(seconds: float, work: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

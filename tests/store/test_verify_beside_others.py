"""`verify` beside a writer, and with either journal: nobody is held up, nothing sound is blamed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from factories import FakeRun, person_mark
from recollect.store import open_reader
from recollect.store.records import Batch, Query
from recollect.store.sqlite import SqliteStore
from recollect.store.tables.schema import CHECKED
from recollect.types import Action
from store.place import write_steps

FAKE = FakeRun(seed=81, rows=3, tokens=12)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    path = tmp_path / "pool.db"
    with SqliteStore(path, journal="truncate") as store:
        write_steps(store, FAKE, 4)
    return path


def held_by_another(path: Path) -> subprocess.Popen[str]:
    """Start a process that writes a store until it is killed; returns once it does."""
    code = "import sys; from recollect.store.sqlite import SqliteStore\n"
    code += "store = SqliteStore(sys.argv[1], journal=sys.argv[2])\n"
    code += "print('here', flush=True)\nsys.stdin.read()"
    command = [sys.executable, "-c", code, str(path), "truncate"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


def test_a_writer_is_not_held_up_by_the_check_of_pages(filled: Path) -> None:
    """With a rollback journal no moment of a check spans several tables while another writes."""

    def moments() -> list[list[str]]:
        told: list[str] = []
        with open_reader(filled) as reader:
            reader._connection.set_trace_callback(told.append)  # type: ignore[attr-defined]
            assert list(reader.verify()) == []
        cut = "\n".join(told).split("BEGIN")
        return [[s for s in part.splitlines() if "integrity_check" in s] for part in cut]

    alone = [part for part in moments() if part]
    assert alone == [["PRAGMA integrity_check(20)"]]
    writer = held_by_another(filled)
    try:
        checks = [part for part in moments() if part]
    finally:
        writer.kill()
        writer.communicate()
    assert len(checks) == len(CHECKED) + 2
    assert all(len(part) == 1 for part in checks)
    assert not any("payloads" in part[0] for part in checks)


def test_damaged_pages_are_found_while_another_writes(filled: Path) -> None:
    edit = sqlite3.connect(filled)
    edit.execute("PRAGMA writable_schema = ON")
    (root,) = edit.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'trajectories_task'"
    ).fetchone()
    (size,) = edit.execute("PRAGMA page_size").fetchone()
    edit.close()
    data = bytearray(filled.read_bytes())
    data[(root - 1) * size + 3 : (root - 1) * size + 5] = b"\0\0"  # the index has no entries now
    filled.write_bytes(data)
    writer = held_by_another(filled)
    try:
        with open_reader(filled) as reader:
            assert any(finding.where == "file" for finding in reader.verify())
    finally:
        writer.kill()
        writer.communicate()


def test_compacting_in_wal_mode_gives_the_space_back(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with SqliteStore(path, journal="wal") as store:
        write_steps(store, FakeRun(seed=83, rows=8, tokens=4000), 4)
        ids = [row.id for row in store.rows(Query(status=None), limit=100).rows]
        store.commit(Batch(marks=[person_mark(id_, Action.EVICT) for id_ in ids]))
        store.reclaim()
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        before = path.stat().st_size
        store.compact()
        assert path.stat().st_size < 0.6 * before
        assert list(store.verify()) == []


def test_a_log_that_is_not_copied_yet_is_no_damage(tmp_path: Path) -> None:
    """A reader keeps the log from being emptied: the file is long, and nothing is wrong."""
    path = tmp_path / "pool.db"
    with SqliteStore(path, journal="wal") as store:
        write_steps(store, FakeRun(seed=83, rows=8, tokens=4000), 4)
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        store._connection.execute("PRAGMA busy_timeout = 10")
        ids = [row.id for row in store.rows(Query(status=None), limit=100).rows]
        with open_reader(path) as reader, reader._connection.moment():  # type: ignore[attr-defined]
            reader._connection.execute("SELECT count(*) FROM runs").fetchone()  # type: ignore[attr-defined]
            store.commit(Batch(marks=[person_mark(id_, Action.EVICT) for id_ in ids]))
            store.reclaim()
            store.compact()
            assert list(store.verify()) == []

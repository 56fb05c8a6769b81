"""One writer and several readers at once: nobody sees half a step, nobody fails, nobody waits long.

Waiting is measured loosely: the machine may be busy. What must not happen is that somebody waits
for as long as another one works.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from factories import FakeRun, person_mark
from recollect.errors import StoreBusy, UnknownId
from recollect.replay.pool import Pool
from recollect.store import open_reader
from recollect.store.records import Batch, Query
from recollect.store.sqlite import SqliteReader, SqliteStore, person
from recollect.types import Action, RunId
from reporting import report

SECONDS = 3.0
PATIENCE = 4.0  # seconds; on a quiet machine the slowest read takes some milliseconds
FAKE = FakeRun(seed=17, tokens=400)
JOURNALS = ("truncate", "wal")


def start(work: Callable[[], str]) -> tuple[int, int]:
    """Fork a process that works for a while; returns its pid and where its last words come."""
    listen, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell)
        return pid, listen
    try:
        os.write(tell, f"ok {work()}".encode())
    except BaseException:
        os.write(tell, traceback.format_exc().encode()[-4000:])
    finally:
        os._exit(0)


def last_words(process: tuple[int, int]) -> str:
    pid, listen = process
    with os.fdopen(listen) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    assert said.startswith("ok "), said
    return said[3:]


def write_on(path: Path, journal: str, until: float) -> str:
    """Commit steps, mark rows, set the run back, reclaim: as fast as it goes."""
    commits, slowest, step, variant = 0, 0.0, 0, 0
    with SqliteStore(path, journal=journal) as store:
        store.commit(FAKE.setup())
        while time.monotonic() < until:
            started = time.monotonic()
            store.commit(_without_references(step, variant))
            step, commits = step + 1, commits + 1
            if commits % 10 == 0:
                store.commit(Batch(marks=[person_mark(FAKE.row_id(step - 2, 0), Action.EVICT)]))
            if commits % 25 == 0:
                store.fence(FAKE.id, step - 4, "resume")
                step, variant = step - 3, variant + 1
                store.reclaim(fenced=True)
            slowest = max(slowest, time.monotonic() - started)
    return f"{commits} {slowest:.3f}"


def _without_references(step: int, variant: int) -> Batch:
    """A step that names no earlier rows: what goes is decided above, and reclaimed for good."""
    batch, fresh = FAKE.step(step, variant), set(FAKE.ids(step))
    scores = [score for score in batch.scores if score.trajectory in fresh]
    return replace(batch, draws=(), uses=(), scores=scores, marks=())


def read_on(path: Path, look: Callable[[SqliteReader], None], until: float) -> str:
    """Look again and again, and time each look."""
    looks, slowest = 0, 0.0
    with open_reader(path) as reader:
        while time.monotonic() < until:
            started = time.monotonic()
            look(reader)
            looks, slowest = looks + 1, max(slowest, time.monotonic() - started)
    return f"{looks} {slowest:.3f}"


def look_at_steps(reader: SqliteReader) -> None:
    """Every step is there with all its rows, except those a reclaim took (row 0), or not at all."""
    rows = reader.rows(Query(status=None), limit=100_000).rows
    for step, count in Counter(row.step for row in rows).items():
        assert count >= FAKE.rows - 1, f"step {step} is torn: {count} rows"
    cursor = reader.cursor(FAKE.id)
    newest = reader.rows(Query(status=None), limit=20, newest_first=True).rows
    assert cursor is None or newest, "a cursor without rows"
    for row in newest:
        try:
            (stored,) = reader.get([row.id])
        except UnknownId:
            continue  # fenced or reclaimed since
        assert (stored.id, stored.step) == (row.id, row.step)


def look_at_everything(reader: SqliteReader) -> None:
    """Verify and index: neither may take work in progress for damage."""
    found = list(reader.verify())
    assert found == [], found[:3]
    pool = Pool(reader)
    pool.refresh()
    assert all(int(number) in pool.tasks for number in pool.facts["task"])


@pytest.mark.parametrize("journal", JOURNALS)
def test_a_writer_and_two_readers(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "pool.db"
    SqliteStore(path, journal=journal).close()
    until = time.monotonic() + SECONDS
    writer = start(lambda: write_on(path, journal, until))
    readers = [
        start(lambda look=look: read_on(path, look, until))
        for look in (look_at_steps, look_at_everything)
    ]
    commits, slowest_commit = last_words(writer).split()
    looks = [last_words(reader).split() for reader in readers]
    report(
        f"together ({journal}): {commits} commits, slowest {slowest_commit} s; "
        f"{looks[0][0]} reads, slowest {looks[0][1]} s; {looks[1][0]} verifies beside them"
    )
    assert int(commits) > 5
    assert all(int(count) > 0 for count, _ in looks)
    assert float(looks[0][1]) < PATIENCE
    with open_reader(path) as reader:
        assert list(reader.verify()) == []


def test_a_commit_waits_longer_than_a_person_may_ask(tmp_path: Path) -> None:
    """With a rollback journal a commit waits for readers, so for a slow `pool sql` as well."""
    with SqliteStore(tmp_path / "pool.db") as store:
        (milliseconds,) = store._connection.execute("PRAGMA busy_timeout").fetchone()
        assert milliseconds > person._SECONDS * 1000


def test_a_file_that_stays_locked_is_said_to_be_and_loses_nothing(tmp_path: Path) -> None:
    """A foreign program that takes SQLite's lock ends a commit with a clear error, no more."""
    path = tmp_path / "pool.db"
    with SqliteStore(path, journal="truncate") as store:
        store.commit(FAKE.setup())
        store._connection.execute("PRAGMA busy_timeout = 50")
        with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
            foreign.execute("BEGIN EXCLUSIVE")
            with pytest.raises(StoreBusy, match="stayed locked") as caught:
                store.commit(FAKE.step(0))
            assert "Close other programs" in str(caught.value.hint)
        store.commit(FAKE.step(0))
        assert store.get(FAKE.ids(0)) == FAKE.trajectories(0)


@pytest.mark.long
def test_a_slow_query_of_a_person_does_not_stop_a_run(tmp_path: Path) -> None:
    """A reader holds its read for longer than SQLite's usual patience; the commit succeeds."""
    path = tmp_path / "pool.db"
    with SqliteStore(path, journal="truncate") as store:
        store.commit(FAKE.setup())
        reader = start(lambda: hold_a_read(path, 6.0))
        time.sleep(0.5)
        started = time.monotonic()
        store.commit(FAKE.step(0))
        waited = time.monotonic() - started
        last_words(reader)
        assert waited > 4.0, "the reader must really have been in the way"
        assert store.get(FAKE.ids(0)) == FAKE.trajectories(0)


def hold_a_read(path: Path, seconds: float) -> str:
    with open_reader(path) as reader:
        reader._connection.execute("BEGIN")
        reader._connection.execute("SELECT count(*) FROM runs").fetchone()
        time.sleep(seconds)
        reader._connection.execute("COMMIT")
    return "done"


def test_a_reader_that_is_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with SqliteStore(path, journal="truncate") as store:
        store.commit(FAKE.setup())
        pid, listen = start(lambda: hold_a_read(path, 60.0))
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(listen)
        started = time.monotonic()
        store.commit(FAKE.step(0))
        assert time.monotonic() - started < 5.0


def test_two_runs_take_turns_in_one_store(tmp_path: Path) -> None:
    """Whoever comes second is told so at once, and can write as soon as the first is done."""
    path = tmp_path / "pool.db"
    other = FakeRun(seed=18, id=RunId("run-b"))
    for run in (FAKE, other, FAKE, other):
        with SqliteStore(path) as store:
            store.commit(run.setup())
            store.commit(run.step(0))
            assert {found.id for found in store.runs().values()} <= {FAKE.id, other.id}

"""Whatever changes behind the store's back, `verify` finds it; what it cannot find is harmless."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from factories import FakeRun, person_mark
from recollect.errors import CorruptRecord, MissingExtra
from recollect.proof.logical import logical_dump
from recollect.store import open_reader, open_store
from recollect.store.records import Batch, Finding
from recollect.store.sqlite import SqliteStore
from recollect.store.sqlite.checks import CHECKS
from recollect.store.sqlite.database import SqliteDatabase
from recollect.store.tables.migrations import MIGRATIONS
from recollect.store.tables.schema import CHECKED
from recollect.store.tables.verify import verify
from recollect.types import Action, RunId, Status
from store.place import write_steps

FAKE = FakeRun(seed=81, rows=3, tokens=12)
OTHER = FakeRun(seed=82, id=RunId("run-b"), rows=2, tokens=12)
KEYS = {"meta": "key", "trajectories": "seq", "payloads": "seq"}
TABLES = (*(table.name for table in CHECKED), *KEYS)

# What no check can see, why, and why it does no harm. Everything else must be found.
BLIND = {
    ("trajectories", "changed"): (
        "When a row last changed follows from nothing else. It only tells running pool indexes "
        "what to read again; an index that is opened afresh reads everything."
    ),
    ("meta", "value"): (
        "The counters may be higher than any row says (changes without rows, rows reclaimed), "
        "so one that is raised looks sound. It only makes an index start over."
    ),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every kind of row, some of them fenced, one reclaimed."""
    path = tmp_path_factory.mktemp("verify") / "pool.db"
    with SqliteStore(path, clock=iter(range(1, 10_000)).__next__) as store:
        write_steps(store, OTHER, 2)
        write_steps(store, FAKE, 6)
        store.fence(FAKE.id, 2, "resume")
        store.commit(FAKE.step(3, variant=1))
        store.fence(OTHER.id, 0, "resume")
        store.commit(Batch(marks=[person_mark(FAKE.row_id(0, 2), Action.EVICT)]))
        store.reclaim()
        assert list(store.verify()) == []
    return path


@pytest.fixture
def raw(filled: Path) -> Iterator[SqliteDatabase]:
    """A plain connection; what it does is undone."""
    connection = sqlite3.connect(filled, isolation_level=None, factory=SqliteDatabase)
    connection.place = filled
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.execute("ROLLBACK")
    connection.close()


def columns_of(table: str) -> list[str]:
    connection = sqlite3.connect(":memory:", factory=SqliteDatabase)
    for migration in MIGRATIONS:
        migration(connection)
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    return names


def rows_of(raw: SqliteDatabase, table: str) -> list[Any]:
    """Keys of the last row, and of the last live and fenced ones."""
    key = KEYS.get(table, "number")
    keys = [row[0] for row in raw.execute(f"SELECT {key} FROM {table} ORDER BY 1")]
    chosen = [keys[-1]]
    if "fence" in columns_of(table):
        for condition in ("fence = 0", "fence = 1"):
            chosen += raw.execute(f"SELECT max({key}) FROM {table} WHERE {condition}").fetchone()
    return list(dict.fromkeys(key for key in chosen if key is not None))


def other_values(value: object) -> list[object]:
    """Values that are not the given one: near it, and of another type."""
    if value is None:
        return [0, "text"]
    if isinstance(value, int):
        return [value + 1, 0 if value else 2, "text"]
    if isinstance(value, float):
        return [value + 0.25, "text"]
    if isinstance(value, str):
        return [value + "x", b"bytes"]
    assert isinstance(value, bytes)
    return [value[:-1], bytes([value[0] ^ 1]) + value[1:], "text"]


def findings(raw: SqliteDatabase, path: Path) -> list[Finding]:
    return list(verify(raw, CHECKS))


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table in TABLES for column in columns_of(table)]
)
def test_every_column_of_every_table(
    raw: SqliteDatabase, filled: Path, table: str, column: str
) -> None:
    key = KEYS.get(table, "number")
    missed, tried = [], 0
    for number in rows_of(raw, table):
        (value,) = raw.execute(f"SELECT {column} FROM {table} WHERE {key} = ?", [number]).fetchone()
        for other in other_values(value):
            raw.execute("SAVEPOINT edit")
            try:
                raw.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", [other, number])
                (stored,) = raw.execute(
                    f"SELECT {column} FROM {table} WHERE {key} = ?",
                    [other if column == key else number],
                ).fetchone()
                tried += 1
                if stored != value and not findings(raw, filled):
                    missed.append((number, value, stored))
            except (sqlite3.IntegrityError, TypeError):
                pass  # SQLite itself refuses it, or changed it to what a key may be
            raw.execute("ROLLBACK TO edit")
    assert tried > 0
    if (table, column) in BLIND:
        assert missed, "verify sees it after all: take it off the list"
    else:
        assert missed == []


@pytest.mark.parametrize(("table", "column"), BLIND)
def test_what_verify_cannot_see_changes_nothing_that_is_read(
    filled: Path, tmp_path: Path, table: str, column: str
) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(filled.read_bytes())
    with open_reader(copy) as reader:
        before = logical_dump(reader)
    edit = sqlite3.connect(copy)
    edit.execute(f"UPDATE {table} SET {column} = {column} + 1 WHERE {column} = 1")
    edit.commit()
    edit.close()
    with open_reader(copy) as reader:
        assert logical_dump(reader) == before


@pytest.mark.parametrize("table", TABLES)
def test_a_row_that_nobody_wrote(raw: SqliteDatabase, filled: Path, table: str) -> None:
    """A copy of a row under a number of its own: its checksum is that of another row."""
    names = columns_of(table)
    key = KEYS.get(table, "number")
    source = rows_of(raw, table)[0]
    values = list(raw.execute(f"SELECT * FROM {table} WHERE {key} = ?", [source]).fetchone())
    values[names.index(key)] = "other" if table == "meta" else 9999
    if "fence" in names:
        values[names.index("fence")] = 1  # the copy of a live row would break a unique index
    marks = ",".join("?" * len(values))
    try:
        raw.execute(f"INSERT INTO {table} VALUES ({marks})", values)
    except sqlite3.IntegrityError:
        return
    assert findings(raw, filled)


@pytest.mark.parametrize(
    "table",
    [
        *("runs", "tasks", "provenances", "trajectories", "payloads", "uses", "scores", "fences"),
        "meta",
    ],
)
def test_a_row_that_is_gone(raw: SqliteDatabase, filled: Path, table: str) -> None:
    """Rows that others refer to, or that add up to something, are missed."""
    key = KEYS.get(table, "number")
    for number in rows_of(raw, table):
        raw.execute("SAVEPOINT edit")
        raw.execute(f"DELETE FROM {table} WHERE {key} = ?", [number])
        assert findings(raw, filled), f"{table} {number}"
        raw.execute("ROLLBACK TO edit")


@pytest.mark.parametrize(
    "table", [table.name for table in CHECKED if table.fenced and table.name != "fences"]
)
def test_a_fenced_row_that_is_gone(raw: SqliteDatabase, filled: Path, table: str) -> None:
    raw.execute(f"DELETE FROM {table} WHERE number = (SELECT max(number) FROM {table} WHERE fence)")
    assert raw.execute("SELECT changes()").fetchone() == (1,)
    assert any("fences" in finding.where for finding in findings(raw, filled))


@pytest.mark.parametrize(
    "statement",
    [
        "DROP INDEX trajectories_task",
        "DROP INDEX draws_key",
        "DROP VIEW pool",
        "DROP TABLE events",
        "CREATE TABLE stranger (x)",
        "CREATE TRIGGER evil AFTER INSERT ON runs BEGIN DELETE FROM draws; END",
        "CREATE VIEW spy AS SELECT * FROM runs",
        "ALTER TABLE runs ADD COLUMN x",
        "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'trajectories'",
        "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'draws'",
        "DELETE FROM sqlite_sequence WHERE name = 'runs'",
    ],
)
def test_a_changed_schema(raw: SqliteDatabase, filled: Path, statement: str) -> None:
    raw.execute(statement)
    assert findings(raw, filled)


def test_two_frames_exchanged(raw: SqliteDatabase, filled: Path) -> None:
    """Both are intact frames; they are just not where they belong."""
    (one, first), (other, second) = raw.execute(
        "SELECT p.seq, p.frame FROM payloads p JOIN trajectories t USING (seq) "
        "WHERE t.fence = 0 LIMIT 2"
    )
    raw.executemany("UPDATE payloads SET frame = ? WHERE seq = ?", [(second, one), (first, other)])
    found = findings(raw, filled)
    assert len(found) == 2
    assert all(finding.trajectory for finding in found)


def test_damage_of_a_fenced_row_blames_no_live_one(raw: SqliteDatabase, filled: Path) -> None:
    raw.execute(
        "UPDATE payloads SET frame = x'00' WHERE seq IN (SELECT seq FROM trajectories WHERE fence)"
    )
    found = findings(raw, filled)
    assert found
    assert all(finding.trajectory is None for finding in found)


def test_one_bad_mark_does_not_hide_the_rest(raw: SqliteDatabase, filled: Path) -> None:
    """A mark that cannot be read stops neither the walk over rows nor the other checks."""
    raw.execute(
        "UPDATE marks SET action = 'nonsense' WHERE number = (SELECT min(number) FROM marks)"
    )
    last = "(SELECT max(seq) FROM trajectories WHERE fence = 0)"
    raw.execute(f"UPDATE trajectories SET reward = reward + 1 WHERE seq = {last}")
    (id_,) = raw.execute(f"SELECT id FROM trajectories WHERE seq = {last}").fetchone()
    found = findings(raw, filled)
    assert id_ in {finding.trajectory for finding in found}
    assert any("marks" in finding.where for finding in found)


def test_verify_never_writes(filled: Path, tmp_path: Path) -> None:
    """Not even where a fingerprint is missing that the writer would add on sight."""
    copy = tmp_path / "copy.db"
    copy.write_bytes(filled.read_bytes())
    edit = sqlite3.connect(copy)
    edit.execute("DELETE FROM provenances")
    edit.commit()
    edit.close()
    with open_store(copy) as store:
        before = copy.read_bytes()
        assert list(store.verify())
        assert copy.read_bytes() == before


def test_bytes_after_the_end_are_found(filled: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(filled.read_bytes() + b"\0" * 16384)
    with open_reader(copy) as reader:
        assert [finding.where for finding in reader.verify()] == ["file"]


def test_findings_can_be_quarantined_while_they_come(filled: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(filled.read_bytes())
    hit = [FAKE.row_id(0, 0), FAKE.row_id(3, 1)]
    edit = sqlite3.connect(copy)
    edit.executemany(
        "UPDATE payloads SET frame = zeroblob(900) "
        "WHERE seq = (SELECT seq FROM trajectories WHERE id = ? AND fence = 0)",
        [(id_,) for id_ in hit],
    )
    edit.commit()
    edit.close()
    with open_store(copy) as store:
        for finding in store.verify():
            assert finding.trajectory in hit
            store.quarantine([finding.trajectory], finding.problem)
        assert [store.row(id_).status for id_ in hit] == [Status.QUARANTINED] * 2
        with pytest.raises(CorruptRecord) as caught:
            store.get([*FAKE.ids(0), *FAKE.ids(3)][:3] + hit)
        assert set(caught.value.ids) == set(hit)


def test_reading_damage_quarantines_once(filled: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes(filled.read_bytes())
    hit = FAKE.row_id(1, 0)
    edit = sqlite3.connect(copy)
    edit.execute(
        "DELETE FROM payloads "
        "WHERE seq = (SELECT seq FROM trajectories WHERE id = ? AND fence = 0)",
        [hit],
    )
    edit.commit()
    edit.close()
    with open_store(copy) as store:
        marks = len(store.marks(hit))
        for _ in range(3):
            with pytest.raises(CorruptRecord) as caught:
                store.get([hit])
            assert caught.value.ids == (hit,)
        assert store.row(hit).status is Status.QUARANTINED
        assert len(store.marks(hit)) == marks + 1


def test_a_missing_package_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrong with frames that cannot be looked at here: no row may be blamed for it."""
    with SqliteStore(tmp_path / "pool.db", compress=True) as store:
        write_steps(store, FAKE, 2)
        assert list(store.verify()) == []
        monkeypatch.setitem(sys.modules, "zstandard", None)
        with pytest.raises(MissingExtra, match="zstd"):
            list(store.verify())


def test_a_disk_that_fails_blames_no_row(
    raw: SqliteDatabase, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("recollect.store.tables.state.derive", fail)
    found = findings(raw, filled)
    assert found
    assert all("disk I/O error" in finding.problem for finding in found)
    assert all(finding.trajectory is None for finding in found)

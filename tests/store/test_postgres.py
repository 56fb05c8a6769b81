"""The PostgreSQL store through the conformance suite, and beyond it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("psycopg", reason="NOT TESTED: psycopg is not installed")

import psycopg

from factories import TASKS, FakeRun, make_trajectory, person_mark
from postgres_server import empty_address, new_address, shared_server
from recollect.errors import (
    BadAddress,
    BadQuery,
    NotAStore,
    StoreFailed,
    StoreLocked,
    StoreMissing,
    StoreTooNew,
    StoreUnreachable,
)
from recollect.ledger import Note
from recollect.proof.logical import logical_dump
from recollect.store import open_reader, open_store, store_exists
from recollect.store.address import PostgresAddress, parse_address
from recollect.store.postgres import PostgresReader, PostgresStore, person
from recollect.store.postgres.spelling import bound, unescaped
from recollect.store.records import Batch, Finding
from recollect.store.tables.schema import SCHEMA
from recollect.types import Action, NoteId
from store.conformance import StoreConformance
from store.place import ANY, write_steps

FAKE = FakeRun(seed=21)


@dataclass(frozen=True)
class PostgresPlace:
    """One schema."""

    address: PostgresAddress

    def writer(self) -> PostgresStore:
        return PostgresStore(self.address, retry_seconds=5)

    def reader(self) -> PostgresReader:
        return PostgresReader(self.address, retry_seconds=5)


class TestPostgres(StoreConformance):
    """Every promise."""

    @pytest.fixture
    def place(self) -> Iterator[PostgresPlace]:
        with empty_address() as address:
            yield PostgresPlace(address)


@pytest.fixture
def address() -> Iterator[PostgresAddress]:
    with new_address() as address:
        yield address


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    with empty_address() as address, PostgresStore(address, retry_seconds=5) as store:
        yield store


def admin(address: PostgresAddress, *statements: str) -> list[tuple[object, ...]]:
    """Do something to the tables behind the store's back; rows of the last statement."""
    options = f"-c search_path={address.schema}"
    with psycopg.connect(address.url, autocommit=True, options=options) as link:
        cursor = [link.execute(statement.encode()) for statement in statements][-1]
        return cursor.fetchall() if cursor.description else []


# -- addresses -------------------------------------------------------------------------------


def test_an_address_never_shows_its_password() -> None:
    address = parse_address("postgres://ann:secret@db:5433/pool?sslmode=require&schema=runs")
    assert address.schema == "runs"
    assert "schema" not in address.url
    assert str(address) == "postgres://ann:***@db:5433/pool?sslmode=require&schema=runs"
    assert "secret" not in repr(address)
    assert "hidden" not in str(parse_address("postgres://db/pool?password=hidden"))
    assert parse_address("postgresql:///pool").schema == "recollect"


@pytest.mark.parametrize(
    "given",
    [
        "postgres://db/x?schema=No",
        "postgres://db/x?schema=a;b",
        "postgres://db/x?schema=pg_x",
        "postgres://db/x?schema=",
        "postgres://db/x#y",
        "postgres://[::1/x",
    ],
)
def test_a_bad_address_is_refused(given: str) -> None:
    with pytest.raises(BadAddress):
        open_store(given)


@pytest.mark.parametrize(
    "given",
    [
        "postgres://ann:SECRET/PW@db/x",
        "postgres://ann:SECRET?PW@db/x",
        "postgres://ann:SECRET#PW@db/x",
        "postgres://ann:SECRET@PW@db/x",
        "postgres://ann:SECRET%PW@db/x",
        "postgres://ann:SECRET%00@db/x",
        "postgres://ann:SECRET[PW@db/x",
        "postgres://ann:SECRET\u2100@db/x",
        "postgres://ann:SECRETPW",
        "postgres://ann:a@db/x?SECRET",
    ],
)
def test_a_refusal_never_quotes_a_password(given: str) -> None:
    with pytest.raises(BadAddress) as caught:
        open_store(given)
    assert "SECRET" not in str(caught.value) + caught.value.what + caught.value.hint
    assert "PW" not in caught.value.what


@pytest.mark.parametrize(
    "given",
    ["postgres://a@h1:1,h2:2/x", "postgres://[::1]:5432/x", "postgres://a:%2F%40@/x?host=/tmp"],
)
def test_what_libpq_allows_is_an_address(given: str) -> None:
    assert parse_address(given).url == given.replace("/tmp", "%2Ftmp")


def test_an_unknown_parameter_is_named() -> None:
    with pytest.raises(BadAddress, match="colour"):
        open_reader("postgres://127.0.0.1/x?colour=red")


def test_nobody_listens_there() -> None:
    for opener in (open_store, open_reader):
        with pytest.raises(StoreUnreachable, match="cannot be reached"):
            opener("postgres://127.0.0.1:1/x")


def test_a_server_that_went_away_in_the_greeting_is_waited_for(
    address: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, said = psycopg.connect, ["Connection refused", "closed the connection unexpectedly"]

    def connect(**parameters: Any) -> object:
        if said:
            raise psycopg.OperationalError(said.pop())
        return real(**parameters)

    monkeypatch.setattr(psycopg, "connect", connect)
    with open_store(address):
        assert not said
    said += ["closed the connection unexpectedly"] * 2
    with pytest.raises(StoreUnreachable, match="unexpectedly"):
        open_reader(address, retry_seconds=0)
    assert len(said) == 1


def test_a_store_is_made_though_the_connection_is_lost_over_it(
    address: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recollect.store.postgres.database import PostgresDatabase

    real, count = PostgresDatabase.define, [0]

    def define(self: Any, statement: str) -> None:
        count[0] += 1
        if count[0] in (3, 40):
            end_connections(address)
        real(self, statement)

    monkeypatch.setattr(PostgresDatabase, "define", define)
    with open_store(address) as store:
        write_steps(store, FAKE, 1)
        assert list(store.verify()) == []
    assert count[0] > 40
    monkeypatch.undo()
    with empty_address() as other, open_reader(address) as here, open_reader(other) as there:
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = "
        tables += "current_schema() ORDER BY 1"
        assert here.sql(tables)[1] == there.sql(tables)[1]


def test_an_address_opens_everywhere(address: PostgresAddress) -> None:
    text = f"{address.url}?schema={address.schema}"
    assert not store_exists(text)
    with open_store(text) as store:
        write_steps(store, FAKE, 1)
        assert "secret" not in str(store.path)
        assert "***" in store.stats().path
    assert store_exists(text)
    with open_reader(text) as reader:
        assert reader.get(FAKE.ids(0)) == FAKE.trajectories(0)


# -- how it is set up ------------------------------------------------------------------------


def test_every_commit_is_durable_whatever_the_server_thinks(address: PostgresAddress) -> None:
    careless = replace(address, url=address.url + "?options=-csynchronous_commit%3Doff")
    with PostgresStore(careless) as store:
        assert store._connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        assert store.stats().journal.startswith("PostgreSQL 1")


def test_a_reader_cannot_write(store: PostgresStore) -> None:
    with open_reader(store.path) as reader, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        reader._connection.execute("DELETE FROM runs")  # type: ignore[attr-defined]


def test_the_clock_can_be_set_and_may_tick_in_whole_numbers() -> None:
    with empty_address() as address, PostgresStore(address, clock=lambda: 7) as store:
        write_steps(store, FAKE, 3)
        assert {row.created for row in store.rows(ANY, limit=99).rows} == {7.0}
        assert list(store.verify()) == []


def test_text_that_postgresql_cannot_hold(store: PostgresStore) -> None:
    """PostgreSQL has no NUL in a text; ours comes back as it went in."""
    for text in ("a\0b", "\x1a", "\x1a0\0\x1a1", "\0" * 9, "plain"):
        assert unescaped(str(bound(text))) == text
        assert "\0" not in str(bound(text))
    store.commit(Batch(tasks=[replace(TASKS[0], query="nul \0 and \x1a0")]))
    note = Note(NoteId("n"), "con\0tent \x1a", data={"x": "\0"})
    store.commit(Batch(notes=[note]))
    store.commit(Batch(notes=[note]))
    assert store.note(note.id) == note
    assert next(iter(store.tasks().values())).query == "nul \0 and \x1a0"
    assert list(store.verify()) == []


def test_compact_loses_nothing(store: PostgresStore) -> None:
    write_steps(store, FAKE, 4)
    store.fence(FAKE.id, 0, "test")
    store.reclaim(fenced=True)
    before = logical_dump(store)
    store.compact()
    assert logical_dump(store) == before


def test_numbers_are_never_given_twice(store: PostgresStore) -> None:
    """The newest rows are removed for good; new ones do not take their numbers."""
    write_steps(store, FAKE, 3)
    seqs = [row.seq for row in store.rows(ANY, limit=99).rows]
    store.fence(FAKE.id, 0, "test")
    store.reclaim(fenced=True)
    store.commit(FAKE.step(1))
    later = [row.seq for row in store.rows(ANY, limit=99).rows]
    assert min(set(later) - set(seqs)) > max(seqs)
    assert list(store.verify()) == []


# -- what is not a store ---------------------------------------------------------------------


def test_reading_what_is_missing_makes_nothing(address: PostgresAddress) -> None:
    with pytest.raises(StoreMissing):
        open_reader(address)
    assert admin(address, "SELECT current_schema()") == [(None,)]


def test_a_foreign_schema_is_refused_and_left_alone(address: PostgresAddress) -> None:
    admin(address, f"CREATE SCHEMA {address.schema}", "CREATE TABLE theirs (x int)")
    for opener in (open_store, open_reader):
        with pytest.raises(NotAStore, match="another program"):
            opener(address)
    assert admin(address, "SELECT to_regclass('runs')") == [(None,)]


def test_a_newer_schema_is_refused(address: PostgresAddress) -> None:
    open_store(address).close()
    admin(address, f"UPDATE recollect_store SET schema = {SCHEMA + 1}")
    for opener in (open_store, open_reader):
        with pytest.raises(StoreTooNew):
            opener(address)


# -- damage ----------------------------------------------------------------------------------


def found(store: PostgresStore) -> list[Finding]:
    return list(store.verify())


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET config = '{}'",
        "UPDATE draws SET weight = weight + 1",
        "UPDATE events SET at = at + 1",
        "DELETE FROM payloads WHERE seq = 3",
        "UPDATE payloads SET frame = set_byte(frame, 40, get_byte(frame, 40) # 1) WHERE seq = 3",
        "UPDATE trajectories SET uses = uses + 1 WHERE seq = 2",
        "UPDATE trajectories SET reward = 9 WHERE seq = 2",
        "UPDATE trajectories SET fence = 7 WHERE seq = 2",
        "DELETE FROM uses WHERE number = (SELECT max(number) FROM uses)",
        "UPDATE meta SET value = 0 WHERE key = 'change'",
        "DROP INDEX uses_trajectory",
        "CREATE TABLE foreigner (x int)",
    ],
)
def test_damage_is_found(address: PostgresAddress, damage: str) -> None:
    with PostgresStore(address) as store:
        write_steps(store, FAKE, 4)
        assert found(store) == []
        admin(address, damage)
        assert found(store)


# -- a person's SQL ----------------------------------------------------------------------------


def test_sql_reads(store: PostgresStore) -> None:
    write_steps(store, FAKE, 2)
    names, rows = store.sql("SELECT task, count(*) AS n FROM pool GROUP BY 1 ORDER BY 1")
    assert names == ["task", "n"]
    assert sum(int(str(row[1])) for row in rows) == 8
    assert len(store.sql("SELECT id FROM pool WHERE id LIKE '%'", limit=3)[1]) == 3


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM trajectories",
        "UPDATE meta SET value = 0",
        "CREATE TABLE x (y int)",
        "DROP TABLE runs",
        "SET synchronous_commit = off",
        "BEGIN",
        "COPY runs TO '/tmp/x'",
        "SELECT 1; DELETE FROM runs",
        "WITH t AS (DELETE FROM runs RETURNING 1) SELECT * FROM t",
        "SELECT setval('x', 1)",
        "SELECT * INTO other FROM runs",
        "SELEC 1",
        "SELECT $1",
        "",
        "-- nothing",
        "SELECT '\ud800'",
        "SELECT 1\0; DROP TABLE runs",
        "SELECT * FROM nowhere",
    ],
)
def test_sql_cannot_write_and_says_why(store: PostgresStore, query: str) -> None:
    store.commit(FAKE.setup())
    before = logical_dump(store)
    with pytest.raises(BadQuery):
        store.sql(query)
    assert logical_dump(store) == before


def test_sql_that_never_ends_is_stopped(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(person, "_SECONDS", 0.2)
    with pytest.raises(BadQuery, match="longer than"):
        store.sql("SELECT count(*) FROM generate_series(1, 10000000000)")


# -- several writers ---------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["read\\ committed", "repeatable\\ read", "serializable"])
def test_writers_beside_each_other(store: PostgresStore, isolation: str) -> None:
    """Four writers, half of what they write the same: everything once, numbers in order.

    Whatever isolation the server, the role or the address prefers.
    """
    options = quote(f"-c default_transaction_isolation={isolation}")
    url = f"{store.path.url}{'&' if '?' in store.path.url else '?'}options={options}"
    theirs = replace(store.path, url=url)
    store.commit(FAKE.setup())
    shared = [make_trajectory(9, row=row, tokens=8) for row in range(20)]
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            with PostgresStore(theirs) as mine:
                for row, trajectory in enumerate(shared):
                    own = make_trajectory(1, row=100 * (number + 1) + row, tokens=8)
                    mine.commit(Batch(tasks=TASKS, trajectories=[trajectory, own]))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    rows = store.rows(ANY, limit=1000).rows
    assert len(rows) == len({row.id for row in rows}) == 20 + 4 * 20
    assert [row.seq for row in rows] == sorted({row.seq for row in rows})
    assert store.changes(None).change == 1 + 4 * 20
    assert list(store.verify()) == []


def test_two_stores_in_one_database_do_not_meet(store: PostgresStore) -> None:
    write_steps(store, FAKE, 1)
    with empty_address() as other, PostgresStore(other) as second:
        assert second.stats().trajectories == 0
        write_steps(second, FAKE, 2)
        assert (second.stats().trajectories, store.stats().trajectories) == (8, 4)


def test_a_run_has_one_trainer(store: PostgresStore) -> None:
    write_steps(store, FAKE, 2)  # its cursor moved: the run is owned
    with PostgresStore(store.path) as other:
        other.commit(Batch(trajectories=FAKE.trajectories(2)))  # anybody may add rows
        for take in (lambda: other.commit(FAKE.step(2)), lambda: other.fence(FAKE.id, 0, "no")):
            with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
                take()
        store.commit(FAKE.step(2))
        store.close()
        other.fence(FAKE.id, 1, "mine now")
        other.commit(FAKE.step(2))
        assert list(other.verify()) == []


def test_a_trainer_that_was_replaced_notices() -> None:
    """Its connection was lost; another took the run over and went; now it wants to go on."""
    with empty_address() as address, PostgresStore(address) as old:
        write_steps(old, FAKE, 2)
        end_connections(address)
        with PostgresStore(address) as new:
            new.fence(FAKE.id, 0, "resume")
            new.commit(FAKE.step(1, variant=1))
        with pytest.raises(StoreLocked, match="took over run"):
            old.commit(FAKE.step(2))
        assert old.get(FAKE.ids(1)) == FAKE.trajectories(1, variant=1)


# -- lost connections ----------------------------------------------------------------------------


def end_connections(address: PostgresAddress) -> None:
    """Have the server end all connections to a store but ours."""
    admin(
        address,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        "AND application_name LIKE 'recollect%'",
    )


def test_reading_and_writing_go_on_after_a_lost_connection(store: PostgresStore) -> None:
    address = store.path
    with PostgresReader(address) as reader:
        store.commit(FAKE.setup())
        for step in range(3):
            end_connections(address)
            assert store.commit(FAKE.step(step)).known == 0
            end_connections(address)
            assert reader.get(FAKE.ids(step)) == FAKE.trajectories(step)
        assert store._connection.sessions == 4
        end_connections(address)
        assert list(store.verify()) == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_commit_whose_answer_is_lost_is_done_once(
    store: PostgresStore, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person's marks are never taken for repeats: done twice, they would show."""
    write_steps(store, FAKE, 1)
    id_ = FAKE.row_id(0, 0)
    real = type(store._connection).commit
    lost = [True]

    def commit(database: object) -> None:
        if lost.pop() if lost else False:
            if kept:
                real(database)  # type: ignore[arg-type]
            store._connection._link.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        real(database)  # type: ignore[arg-type]

    monkeypatch.setattr(type(store._connection), "commit", commit)
    batch = Batch(marks=[person_mark(id_, Action.BAN)], trajectories=FAKE.trajectories(1))
    receipt = store.commit(batch)
    assert not lost
    assert (receipt.added, receipt.known) == (6, 0)  # a mark, four rows, a link to a note
    assert len(store.marks(id_)) == 1
    assert store.changes(None).change == receipt.change
    lost.append(True)
    assert store.fence(FAKE.id, 0, "once").trajectories == 4
    assert store.sql("SELECT count(*) FROM fences")[1] == [(1,)]
    assert list(store.verify()) == []


def test_batches_that_cannot_be_read_again(store: PostgresStore) -> None:
    """A generator is used up: nothing is written, and the caller hears of it."""
    store.commit(FAKE.setup())

    def batches() -> Iterator[Batch]:
        yield FAKE.step(0)
        end_connections(store.path)
        yield FAKE.step(1)

    with pytest.raises(StoreUnreachable, match="batches were being read"):
        store.commit_all(batches())
    assert store.stats().trajectories == 0
    store.commit(FAKE.step(0))


def test_a_lost_connection_is_not_taken_for_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pool verify` sets damaged rows aside: nobody may lose rows to a bad network."""
    from recollect.store.postgres import database

    def refuse(*_: object) -> None:
        raise psycopg.OperationalError("connection refused")

    with empty_address() as address, PostgresStore(address, retry_seconds=0.1) as store:
        write_steps(store, FAKE, 2)
        admin(address, "UPDATE runs SET seed = seed + 1", "UPDATE events SET at = at + 1")
        findings = store.verify()
        assert next(findings).where.startswith("runs")
        monkeypatch.setattr(database, "connect", refuse)
        end_connections(address)
        with pytest.raises(StoreUnreachable):
            list(findings)


def test_the_budget_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from recollect.store.postgres import database

    with empty_address() as address, PostgresStore(address, retry_seconds=0.3) as store:
        store.commit(FAKE.setup())

        def refuse(*_: object) -> None:
            raise psycopg.OperationalError("connection refused")

        monkeypatch.setattr(database, "connect", refuse)
        end_connections(address)
        with pytest.raises(StoreUnreachable, match="Nothing was written"):
            store.commit(FAKE.step(0))
        with pytest.raises(StoreUnreachable):
            store.stats()


def test_a_handle_of_a_parent_is_of_no_use(store: PostgresStore) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            store.stats()
        except StoreFailed:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert store.stats().trajectories == 0


def test_the_server_is_as_durable_as_it_says() -> None:
    """The tests' server does not cheat."""
    address = shared_server().address("x")
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        assert admin(address, f"SHOW {setting}") == [("on",)]

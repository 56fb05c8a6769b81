"""kill -9 of clients and of the server of a PostgreSQL store: nothing lost, nothing twice."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

pytest.importorskip("psycopg", reason="NOT TESTED: psycopg is not installed")

from faults.postgres_killing import Child, Tally, Witness, kill_client, kill_server
from postgres_server import PostgresServer, new_server
from recollect.errors import PromiseBroken
from recollect.proof.killing import MESSAGE
from recollect.proof.life import make_life
from reporting import chosen_seed, report

QUICK, LONG = (16, 4), (150, 110)  # clients, servers
_AIMED = 0.5  # share of kills between a COMMIT and its answer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own: it is killed."""
    server = new_server()
    yield server
    server.close()


def kill_clients(server: PostgresServer, kills: int, seed: int, tally: Tally) -> None:
    """Give stores one life after the other, and kill their writers again and again."""
    chance, lives, goal = random.Random(seed), 0, tally.clients + kills
    while tally.clients < goal:
        lives += 1
        life = make_life(seed + lives, length=34)
        witness = Witness(server.address(f"clients_{seed}_{lives}"), life, tally)
        while witness.steps_left > 8 and tally.clients < goal:
            messages = 0 if chance.random() < 0.1 else 1 + chance.randrange(9)
            if chance.random() < _AIMED:
                kill_client(witness, 0, chance.uniform(0, 0.002), 1 + chance.randrange(4))
            else:
                kill_client(witness, messages, chance.uniform(0, 0.01))


def kill_servers(server: PostgresServer, kills: int, seed: int, tally: Tally) -> None:
    """Kill the server under a writer that goes on all the while, until its life is whole."""
    chance, lives, goal = random.Random(seed), 0, tally.servers + kills
    while tally.servers < goal:
        lives += 1
        length = min(60, 6 + 5 * (goal - tally.servers))
        life = make_life(seed + 1000 + lives, length=length)
        witness = Witness(server.address(f"servers_{seed}_{lives}"), life, tally)
        child = Child(witness.address, life, 0)
        heard = 1
        while heard + 8 < 2 * length and tally.servers < goal:
            heard += 1 + chance.randrange(8)
            if chance.random() < _AIMED:
                commits = 1 + chance.randrange(3)
                kill_server(witness, server, child, 0, chance.uniform(0, 0.002), commits)
            else:
                kill_server(witness, server, child, heard, chance.uniform(0, 0.01))
            heard = max(heard, len(child._heard) // MESSAGE.size)
        child.wait_for(1 + 2 * length)  # it comes to the end by itself
        told = child.kill()
        assert told.done == length
        witness.look(told)
        assert witness.position == length


def kill_many(server: PostgresServer, counts: tuple[int, int], seed: int) -> Tally:
    tally = Tally()
    try:
        kill_clients(server, counts[0], seed, tally)
        kill_servers(server, counts[1], seed, tally)
    except (AssertionError, PromiseBroken) as error:
        raise AssertionError(f"RECOLLECT_SEED={seed} {tally}: {error}") from error
    report(tally.summary())
    assert tally.at_work > (tally.clients + tally.servers) / 3, "most must be hit at work"
    assert tally.rows_checked > 5 * (tally.clients + tally.servers)
    return tally


@pytest.mark.timeout(900)
def test_kills(server: PostgresServer) -> None:
    kill_many(server, QUICK, chosen_seed("postgres kills"))


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_kills(server: PostgresServer) -> None:
    tally = kill_many(server, LONG, chosen_seed("many postgres kills"))
    assert (tally.clients, tally.servers) == LONG


def test_a_writer_that_does_not_ask_what_became_of_its_commit_is_found_out(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that cannot fail proves nothing: without receipts, a lost answer shows."""
    from factories import FakeRun, person_mark
    from recollect.store.postgres import PostgresStore, database
    from recollect.store.records import Batch
    from recollect.types import Action

    run = FakeRun(seed=3)
    with PostgresStore(server.address("forgetful")) as store:
        store.commit(run.setup())
        store.commit(Batch(trajectories=run.trajectories(0)))
        real, lost = database.PostgresDatabase.commit, [True]

        def commit(self: database.PostgresDatabase) -> None:
            real(self)
            if lost.pop() if lost else False:
                server.kill()
                server.start()
                self._link.execute("SELECT 1")

        monkeypatch.setattr(database.PostgresDatabase, "commit", commit)
        monkeypatch.setattr(PostgresStore, "_receipt", lambda self: None)
        store.commit(Batch(marks=[person_mark(run.row_id(0, 0), Action.BAN)]))
        assert len(store.marks(run.row_id(0, 0))) == 2

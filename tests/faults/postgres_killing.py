"""Killing clients of a PostgreSQL store, and the server, with the truth kept outside of both.

As in `recollect.proof.killing`: a forked child does operations and tells through a pipe what it
begins and what was acknowledged. Either the child is killed, or the server is, and the child is
stopped until what the server has kept is looked at; then it goes on, and must neither lose nor
repeat anything. Through a second pipe it tells when it sends a COMMIT and when the answer is there:
some kills are aimed between the two, where nobody can know what has become of it.
"""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from postgres_server import PostgresServer
from recollect.errors import StoreMissing, StoreTooOld, StoreUnreachable
from recollect.proof.killing import (
    BEGUN,
    DONE,
    FAILED,
    MESSAGE,
    OPENED,
    Told,
    check_clean,
    read_messages,
)
from recollect.proof.life import Operation, Truth
from recollect.store.address import PostgresAddress
from recollect.store.base import StoreReader
from recollect.store.postgres import PostgresReader, PostgresStore
from recollect.store.postgres.database import PostgresDatabase

_SENT, _ANSWERED = b"c", b"a"


@dataclass
class Tally:
    """What many kills added up to."""

    clients: int = 0
    servers: int = 0
    at_work: int = 0
    at_commit: int = 0
    rows_checked: int = 0
    in_flight_kept: int = 0

    def summary(self) -> str:
        """One line for the log."""
        return (
            f"PostgreSQL: {self.clients} clients and {self.servers} servers killed (-9), "
            f"{self.at_work} of them at work, {self.at_commit} between a COMMIT and its answer; "
            f"{self.rows_checked} acknowledged rows read back equal, 0 lost, 0 twice; "
            f"{self.in_flight_kept} operations in flight found whole"
        )


class Child:
    """A forked process that does operations from a position on."""

    def __init__(self, address: PostgresAddress, life: Sequence[Operation], position: int) -> None:
        self.died_committing = False
        self._position = position
        self._listen, tell = os.pipe()
        self._follow, mark = os.pipe()
        self._heard = b""
        self._commits = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._listen)
            os.close(self._follow)
            _mark_commits(mark)
            _live(address, life, position, tell)
        os.close(tell)
        os.close(mark)
        os.set_blocking(self._listen, False)
        os.set_blocking(self._follow, False)

    def hear(self) -> Told:
        """What it has said so far; raises what went wrong in it."""
        try:
            while data := os.read(self._listen, 65536):
                self._heard += data
        except BlockingIOError:
            pass
        told = read_messages(self._heard, self._position)
        assert not told.failure, told.failure
        return told

    def wait_for(self, messages: int) -> Told:
        """Let it come some way: progress, not the clock of a busy machine, decides how far."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            told = self.hear()
            if len(self._heard) >= messages * MESSAGE.size:
                return told
            time.sleep(0.001)
        raise AssertionError(f"the child does not come on: {told}")

    def wait_for_commit(self, more: int) -> None:
        """Let it come to the next COMMIT but so many that it sends."""
        self.is_committing()
        goal = self._commits.count(_SENT) + more
        until = time.monotonic() + 120
        while self._commits.count(_SENT) < goal:
            assert time.monotonic() < until, "the child commits nothing"
            select.select([self._follow], [], [], 1.0)
            self.hear()
            self.is_committing()

    def is_committing(self) -> bool:
        """Tell whether it has sent a COMMIT, the last time it said so, and had no answer."""
        with suppress(BlockingIOError):
            while data := os.read(self._follow, 65536):
                self._commits += data
        return self._commits.endswith(_SENT)

    def kill(self) -> Told:
        """Kill -9, and hear its last words."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        told = self.hear()
        self.died_committing = self.is_committing()
        os.close(self._listen)
        os.close(self._follow)
        return told

    def stop(self) -> Told:
        """Halt it where it is."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)
        return self.hear()

    def go_on(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)


def _mark_commits(mark: int) -> None:
    """Have every COMMIT of this process, which is a child, announced and its answer too."""
    real = PostgresDatabase.commit

    def commit(database: PostgresDatabase) -> None:
        os.write(mark, _SENT)
        real(database)
        os.write(mark, _ANSWERED)

    PostgresDatabase.commit = commit  # type: ignore[method-assign]


def _live(address: PostgresAddress, life: Sequence[Operation], position: int, tell: int) -> None:
    """Do operations until killed. Never returns."""
    try:
        store = PostgresStore(address)
        os.write(tell, MESSAGE.pack(OPENED, 0))
        for number in range(position, len(life)):
            os.write(tell, MESSAGE.pack(BEGUN, number))
            if life[number].kind == "reopen":
                store.close()
                store = _opened(address)
            else:
                life[number].do(store)
            os.write(tell, MESSAGE.pack(DONE, number))
        signal.pause()
    except BaseException:
        text = traceback.format_exc().encode()
        os.write(tell, MESSAGE.pack(FAILED, len(text)) + text)
    finally:
        os._exit(1)


def _opened(address: PostgresAddress) -> PostgresStore:
    """Open a store as people do, who try again when they hear that there is no server."""
    while True:
        try:
            return PostgresStore(address)
        except StoreUnreachable as error:
            if "refused" not in str(error):
                raise
            time.sleep(0.02)


class Witness:
    """Knows what must be in a store, and looks."""

    def __init__(self, address: PostgresAddress, life: Sequence[Operation], tally: Tally) -> None:
        self.address = address
        self.life = life
        self.tally = tally
        self.truth = Truth()
        self.position = 0
        self._exists = False

    @property
    def steps_left(self) -> int:
        """How many operations are still to be done."""
        return len(self.life) - self.position

    def look(self, told: Told) -> None:
        """Compare: everything acknowledged is there, the operation in flight whole or not."""
        before = self.truth.after(self.life[self.position : told.done])
        after = before.after(self.life[told.done : told.begun])
        self.tally.at_work += told.begun > told.done
        try:
            reader = PostgresReader(self.address)
        except (StoreMissing, StoreTooOld):  # it was being made; the next writer goes on with that
            assert not self._exists, "the whole store is gone"
            return
        self._exists = self._exists or told.opened
        with reader:
            _let_the_dead_finish(reader)
            differences = before.differs_from(reader)
            self.truth, self.position = before, told.done
            if differences and told.begun > told.done:
                assert not after.differs_from(reader), f"torn: {differences}"
                self.truth, self.position = after, told.begun
                self.tally.in_flight_kept += 1
                differences = ""
            assert not differences, differences
            check_clean(reader)
        self.tally.rows_checked += len(before.rows)


def _let_the_dead_finish(reader: StoreReader) -> None:
    """Wait until the server has done or undone what a killed client had sent."""
    database = reader._connection  # type: ignore[attr-defined]
    database.begin()  # all writers go one after the other: now none is under way
    database.rollback()


def kill_client(witness: Witness, messages: int, seconds: float, commits: int = 0) -> None:
    """Let a child go on with the operations, kill it, and look.

    It dies some seconds after so many messages, or after it has sent so many COMMITs.
    """
    child = Child(witness.address, witness.life, witness.position)
    if commits:
        child.wait_for_commit(commits)
    else:
        child.wait_for(messages)
    time.sleep(seconds)
    told = child.kill()
    witness.tally.clients += 1
    witness.tally.at_commit += child.died_committing
    witness.look(told)


def kill_server(
    witness: Witness,
    server: PostgresServer,
    child: Child,
    messages: int,
    seconds: float,
    commits: int = 0,
) -> None:
    """Kill the server under a child's hands, start it again, look, and let the child go on.

    The child stays where it is: it must come back by itself. Its position is what it has said.
    """
    if commits:
        child.wait_for_commit(commits)
    else:
        child.wait_for(messages)
    time.sleep(seconds)
    server.kill()
    told = child.stop()
    witness.tally.at_commit += child.is_committing()
    server.start()
    witness.tally.servers += 1
    witness.look(told)
    child.go_on()

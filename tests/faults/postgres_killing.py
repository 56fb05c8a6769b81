"""Killing clients of a PostgreSQL store, and the server, with the truth kept outside of both.

As in `recollect.proof.killing`: a forked child does operations and tells through a pipe what it
begins and what was acknowledged. Either the child is killed, or the server is, and the child is
stopped until what the server has kept is looked at; then it goes on, and must neither lose nor
repeat anything.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from postgres_server import PostgresServer
from recollect.errors import StoreMissing, StoreUnreachable
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


@dataclass
class Tally:
    """What many kills added up to."""

    clients: int = 0
    servers: int = 0
    at_work: int = 0
    rows_checked: int = 0
    in_flight_kept: int = 0

    def summary(self) -> str:
        """One line for the log."""
        return (
            f"PostgreSQL: {self.clients} clients and {self.servers} servers killed (-9), "
            f"{self.at_work} of them at work; {self.rows_checked} acknowledged rows read back "
            f"equal, 0 lost, 0 twice; {self.in_flight_kept} operations in flight found whole"
        )


class Child:
    """A forked process that does operations from a position on."""

    def __init__(self, address: PostgresAddress, life: Sequence[Operation], position: int) -> None:
        self._position = position
        self._listen, tell = os.pipe()
        self._heard = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._listen)
            _live(address, life, position, tell)
        os.close(tell)
        os.set_blocking(self._listen, False)

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

    def kill(self) -> Told:
        """Kill -9, and hear its last words."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        told = self.hear()
        os.close(self._listen)
        return told

    def stop(self) -> Told:
        """Halt it where it is."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)
        return self.hear()

    def go_on(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)


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
        except StoreMissing:
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


def kill_client(witness: Witness, messages: int, seconds: float) -> None:
    """Let a child go on with the operations, kill it, and look."""
    child = Child(witness.address, witness.life, witness.position)
    child.wait_for(messages)
    time.sleep(seconds)
    told = child.kill()
    witness.tally.clients += 1
    witness.look(told)


def kill_server(
    witness: Witness, server: PostgresServer, child: Child, messages: int, seconds: float
) -> None:
    """Kill the server under a child's hands, start it again, look, and let the child go on.

    The child stays where it is: it must come back by itself. Its position is what it has said.
    """
    child.wait_for(messages)
    time.sleep(seconds)
    server.kill()
    told = child.stop()
    server.start()
    witness.tally.servers += 1
    witness.look(told)
    child.go_on()

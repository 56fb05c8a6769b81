"""Killing a writer at any moment, with the truth kept outside of it.

The parent knows the operations and forks a child that does them. The child tells through a pipe
when it begins one and when the store has acknowledged it. The parent kills it (SIGKILL) and reads
the pipe to its end: from then on it knows what must be there (everything acknowledged), what may
be there (the one operation in flight, whole), and that nothing else is.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import struct
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from recollect.errors import PromiseBroken, StoreMissing
from recollect.proof.life import Operation, Truth, make_life
from recollect.store import open_reader
from recollect.store.base import Store, StoreReader
from recollect.store.lock import WriterLock
from recollect.store.sqlite import SqliteStore

MESSAGE = struct.Struct("<cI")
OPENING, OPENED, BEGUN, DONE, FAILED = b"o", b"O", b"b", b"D", b"!"


@dataclass
class Told:
    """What a child said before it died."""

    opened: bool = False
    begun: int = 0
    done: int = 0
    failure: str = ""


@dataclass
class Tally:
    """What many kills added up to."""

    kills: int = 0
    moments: Counter[str] = field(default_factory=Counter)
    rows_checked: int = 0
    in_flight_kept: int = 0
    slowest_lock: float = 0.0

    def summary(self, name: str) -> str:
        """One line for the log."""
        shown = ", ".join(f"{count} in {moment}" for moment, count in self.moments.most_common())
        return (
            f"{name}: {self.kills} kills ({shown}); {self.rows_checked} acknowledged rows read "
            f"back equal, 0 lost, 0 torn; {self.in_flight_kept} in-flight batches found whole; "
            f"lock taken over in {self.slowest_lock * 1000:.0f} ms at most"
        )


class Victim:
    """A store file, its operations, and how many of them are done."""

    def __init__(self, path: Path, journal: str, life: Sequence[Operation]) -> None:
        self.path = path
        self.journal = journal
        self.life = life
        self._takeovers = 0
        self.position = 0
        self.exists = False
        self.truth = Truth()

    def kill_once(self, messages: int, seconds: float, tally: Tally) -> None:
        """Let a child go on with the operations, kill it, and check what is left.

        It dies `seconds` after it has said so many things: progress, not the clock of a busy
        machine, decides how far it comes.
        """
        told = self._run_and_kill(messages, seconds)
        if told.failure:
            raise PromiseBroken(told.failure)
        tally.kills += 1
        tally.moments[self._moment(told)] += 1
        self.exists = self.exists or told.opened
        self._check(told, tally)

    def _run_and_kill(self, messages: int, seconds: float) -> Told:
        listen, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(listen)
            self._child(tell)
        os.close(tell)
        with os.fdopen(listen, "rb") as pipe:
            heard = pipe.read(messages * MESSAGE.size)
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return read_messages(heard + pipe.read(), self.position)

    def _child(self, tell: int) -> None:
        """Do operations until killed. Never returns."""
        try:
            os.write(tell, MESSAGE.pack(OPENING, 0))
            store = SqliteStore(self.path, journal=self.journal)
            os.write(tell, MESSAGE.pack(OPENED, 0))
            for number in range(self.position, len(self.life)):
                os.write(tell, MESSAGE.pack(BEGUN, number))
                acknowledge = partial(os.write, tell, MESSAGE.pack(DONE, number))
                if self.life[number].kind == "reopen":
                    store.close()
                    store = SqliteStore(self.path, journal=self.journal)
                    acknowledge()
                else:
                    self.do(store, self.life[number], acknowledge)
            signal.pause()
        except BaseException:
            text = traceback.format_exc().encode()
            os.write(tell, MESSAGE.pack(FAILED, len(text)) + text)
        finally:
            os._exit(1)

    @property
    def steps_left(self) -> int:
        """How many operations are still to be done."""
        return len(self.life) - self.position

    def do(self, store: Store, operation: Operation, acknowledge: Callable[[], object]) -> None:
        """Do one operation, then say so."""
        operation.do(store)
        acknowledge()

    def _moment(self, told: Told) -> str:
        if not told.opened:
            return "opening" if self.exists else "creation"
        if told.begun == told.done:
            return "idle"
        return self.life[told.done].kind

    def _check(self, told: Told, tally: Tally) -> None:
        before = self.truth.after(self.life[self.position : told.done])
        after = before.after(self.life[told.done : told.begun])
        tally.slowest_lock = max(tally.slowest_lock, self._take_over_lock())
        try:
            reader = open_reader(self.path)
        except StoreMissing:
            if self.exists:
                raise PromiseBroken("the whole store is gone") from None
            return
        with reader:
            differences = before.differs_from(reader)
            self.truth, self.position = before, told.done
            if differences and told.begun > told.done:
                if after.differs_from(reader):
                    raise PromiseBroken(f"torn: {differences}")
                self.truth, self.position = after, told.begun
                tally.in_flight_kept += 1
                differences = ""
            if differences:
                raise PromiseBroken(differences)
            check_clean(reader)
        self.exists = True
        tally.rows_checked += len(before.rows)

    def _take_over_lock(self) -> float:
        """Take the dead writer's lock; every second time open before any reader has looked."""
        self.path.parent.mkdir(exist_ok=True)
        started = time.monotonic()
        WriterLock(self.path).release()
        seconds = time.monotonic() - started
        self._takeovers += 1
        if self._takeovers % 2 and self.exists:
            SqliteStore(self.path, journal=self.journal).close()
        return seconds


def kill_many(folder: Path, journal: str, kills: int, seed: int) -> Tally:
    """Give stores one life after the other, and kill their writers again and again.

    PromiseBroken says what was lost or torn, and the seed that makes it happen again.
    """
    tally, chance, lives = Tally(), random.Random(seed), 0
    while tally.kills < kills:
        lives += 1
        place = folder / f"life-{lives}"
        victim = Victim(place / "pool.db", journal, make_life(seed + lives, length=34))
        while victim.steps_left > 8 and tally.kills < kills:
            # Sometimes while it opens; else after some operations, each two messages.
            early = chance.random() < (0.1 if victim.exists else 0.5)
            messages = 1 if early else 2 + chance.randrange(8)
            try:
                victim.kill_once(messages, chance.uniform(0, 0.008), tally)
            except PromiseBroken as error:
                where = f"life {lives}, kill {tally.kills}, operation {victim.position}"
                what = f"RECOLLECT_SEED={seed} {journal} {where}: {error.what}"
                raise PromiseBroken(what) from error
        shutil.rmtree(place)
    return tally


def read_messages(data: bytes, position: int) -> Told:
    """Decode what a child said; it began at `position`."""
    told = Told(begun=position, done=position)
    offset = 0
    while offset + MESSAGE.size <= len(data):
        kind, number = MESSAGE.unpack_from(data, offset)
        offset += MESSAGE.size
        if kind == OPENED:
            told.opened = True
        elif kind == BEGUN:
            told.begun = number + 1
        elif kind == DONE:
            told.done = number + 1
        elif kind == FAILED:
            told.failure = data[offset : offset + number].decode()
            offset += number
    return told


def check_clean(store: StoreReader) -> None:
    """Raise PromiseBroken if verify finds anything."""
    found = list(store.verify())
    if found:
        raise PromiseBroken(f"verify finds {found[:3]}")

"""The system calls of a short life, in turn: killed before one, or it fails (needs strace).

A dry run counts how often each call is made. Then the same life runs once for each of them (of the
many writes, for every so-manyth): killed just before it, or with an I/O error or a full disk as its
answer. After each, everything that was acknowledged must be there, and the store must go on.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from recollect.errors import PromiseBroken, StoreMissing
from recollect.proof.killing import check_clean, read_messages
from recollect.proof.life import Truth, make_life
from recollect.store import open_reader
from recollect.store.sqlite import SqliteStore
from reporting import report

CALLS = ("pwrite64", "fdatasync", "ftruncate", "unlink", "openat")
# The life under test: created, written to, set back, reclaimed. Also what the child runs.
LIFE_SEED, LIFE_LENGTH, TOKENS = 6, 7, 60
MOST = 30  # of each call: of hundreds of writes every so-manyth
CHILD = """
import os, sys
from recollect.proof.killing import BEGUN, DONE, OPENED, MESSAGE
from recollect.proof.life import make_life
from recollect.store.sqlite import SqliteStore
from recollect.errors import RecollectError
life = make_life({seed}, {length}, tokens={tokens})
tell = os.open({pipe!r}, os.O_WRONLY | os.O_APPEND)
say = lambda kind, number: os.write(tell, MESSAGE.pack(kind, number))
os.write(2, b"ready\\n")
try:
    store = SqliteStore({path!r}, journal={journal!r})
    say(OPENED, 0)
    for number, operation in enumerate(life):
        say(BEGUN, number)
        operation.do(store)
        say(DONE, number)
    store.close()
except RecollectError as error:
    print(type(error).__name__)
    os._exit(3)
print("finished")
os._exit(0)
"""

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


class Strace:
    """Runs the life under strace, with something done to one of its calls."""

    def __init__(self, folder: Path, journal: str) -> None:
        if shutil.which("strace") is None:
            pytest.skip("NOT TESTED: strace is not installed")
        self.folder = folder
        self.journal = journal
        self.life = make_life(LIFE_SEED, LIFE_LENGTH, tokens=TOKENS)
        self.store = folder / "store" / "pool.db"
        self.pipe = folder / "told"

    def run(self, inject: str | None, call: str) -> tuple[int, str, str]:
        """Run once from nothing; returns exit code, output and the trace of this store's calls."""
        shutil.rmtree(self.store.parent, ignore_errors=True)
        self.store.parent.mkdir()
        self.pipe.write_bytes(b"")
        trace = self.folder / "trace"
        code = CHILD.format(
            seed=LIFE_SEED,
            length=LIFE_LENGTH,
            tokens=TOKENS,
            pipe=str(self.pipe),
            path=str(self.store),
            journal=self.journal,
        )
        command = ["strace", "-f", "-y", "-o", str(trace), "-e", f"trace={call}"]
        command += ["-P", str(self.store), "-P", f"{self.store}-journal", "-P", f"{self.store}-wal"]
        command += ["-e", f"inject={call}:{inject}"] if inject else []
        done = subprocess.run(
            [*command, sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        if "ready" not in done.stderr:
            pytest.skip(f"NOT TESTED: strace does not work here ({done.stderr[-200:].strip()})")
        return done.returncode, done.stdout.strip() or done.stderr[-300:], trace.read_text()

    def count(self, call: str) -> int:
        """How often the life makes a call on the store's files."""
        code, said, trace = self.run(None, call)
        assert (code, said) == (0, "finished")
        return len(re.findall(rf"\b{call}\(", trace))

    def check(self) -> None:
        """What was acknowledged is there, what was in flight is whole or absent; then go on."""
        told = read_messages(self.pipe.read_bytes(), 0)
        before = Truth().after(self.life[: told.done])
        after = before.after(self.life[told.done : told.begun])
        try:
            with open_reader(self.store) as reader:
                assert "" in (before.differs_from(reader), after.differs_from(reader))
                check_clean(reader)
        except StoreMissing:
            assert not told.opened
        with SqliteStore(self.store, journal=self.journal) as store:
            done = told.done if not before.differs_from(store) else told.begun
            for operation in self.life[done:]:
                operation.do(store)
            assert not Truth().after(self.life).differs_from(store)
            check_clean(store)


@pytest.mark.parametrize("journal", ["truncate", "wal"])
@pytest.mark.parametrize("fault", ["signal=SIGKILL", "error=EIO", "error=ENOSPC"])
def test_calls_that_die_or_fail(tmp_path: Path, journal: str, fault: str) -> None:
    strace = Strace(tmp_path, journal)
    outcomes: Counter[str] = Counter()
    for call in CALLS:
        total = strace.count(call)
        for number in range(1, total + 1, 1 + total // MOST):
            code, said, _ = strace.run(f"{fault}:when={number}", call)
            outcome = {0: "no harm", 3: said}.get(code, "killed" if "KILL" in fault else said)
            assert code in ((0, 3) if "error" in fault else (-9, 137)), f"{call} {number}: {said}"
            outcomes[outcome] += 1
            try:
                strace.check()
            except (AssertionError, PromiseBroken) as error:
                raise AssertionError(f"{journal} {fault} at {call} {number}: {error}") from error
    report(f"system calls ({journal}, {fault}): {dict(outcomes)}")
    assert sum(outcomes.values()) > 40

"""One writer, whatever happens to the others: kills, forks, links, races."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from factories import FakeRun
from recollect.errors import StoreError, StoreLocked
from recollect.store import lock, open_reader, open_store
from recollect.store.lock import WriterLock, is_held_elsewhere
from reporting import report

RACES = 240
FAKE = FakeRun(seed=61)


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked child; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def hold_until_killed(path: Path, ready: int) -> None:
    store = open_store(path)
    os.write(ready, b"1")
    signal.pause()
    store.close()


def start_holder(path: Path) -> int:
    """Fork a child that holds the store; returns its pid once it does."""
    ready, tell = os.pipe()
    pid = in_child(lambda: hold_until_killed(path, tell))
    os.close(tell)
    assert os.read(ready, 1) == b"1"
    os.close(ready)
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def refusal(path: Path) -> tuple[StoreLocked, float]:
    started = time.monotonic()
    with pytest.raises(StoreLocked) as caught:
        open_store(path)
    return caught.value, time.monotonic() - started


def test_another_process_is_refused_within_a_second_and_told_who(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    holder = start_holder(path)
    try:
        error, seconds = refusal(path)
        assert seconds < 1
        assert f"process {holder} on {socket.gethostname()}" in error.owner
        assert error.owner in str(error)
    finally:
        kill(holder)


def test_a_fresh_interpreter_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    code = f"from recollect import open_store; open_store({str(path)!r})"
    with open_store(path):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
    assert done.returncode != 0
    assert f"process {os.getpid()} on" in done.stderr


def test_the_same_process_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with open_store(path):
        error, seconds = refusal(path)
        assert seconds < 1
        assert f"process {os.getpid()} on" in error.owner
    open_store(path).close()


@pytest.mark.parametrize("kind", ["file", "folder", "relative"])
def test_a_link_leads_to_the_same_lock(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "file.db").symlink_to(folder / "pool.db")
    (tmp_path / "folder").symlink_to(folder)
    other = {
        "file": tmp_path / "file.db",
        "folder": tmp_path / "folder" / "pool.db",
        "relative": Path("pool.db"),
    }[kind]
    with open_store(folder / "pool.db"), pytest.raises(StoreLocked):
        open_store(other)
    with open_store(other), pytest.raises(StoreLocked):
        open_store(folder / "pool.db")


def test_a_lock_is_reclaimed_at_once_after_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    for _ in range(20):
        kill(start_holder(path))
        started = time.monotonic()
        WriterLock(path).release()
        assert time.monotonic() - started < 1
    open_store(path).close()


def test_the_text_of_a_dead_owner_locks_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    for text in ('{"pid": 1, "host": "x", "since": "now"}', "", "garbage", "[1, 2]", "\0" * 9):
        (tmp_path / "pool.db.lock").write_text(text)
        with open_store(path):
            assert f"process {os.getpid()}" in refusal(path)[0].owner


def test_an_owner_who_says_nothing_is_still_an_owner(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with open_store(path):
        (tmp_path / "pool.db.lock").write_text("{")
        assert refusal(path)[0].owner == "another process"


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    """The parent dies, its child lives on: the store is free."""
    path = tmp_path / "pool.db"
    ready, tell = os.pipe()

    def child() -> None:
        os.write(tell, os.getpid().to_bytes(4, "little"))
        signal.pause()

    def parent() -> None:
        store = open_store(path)
        in_child(child)
        signal.pause()
        store.close()

    pid = in_child(parent)
    survivor = int.from_bytes(os.read(ready, 4), "little")
    assert survivor > 0
    try:
        assert refusal(path)[0].owner
        kill(pid)
        open_store(path).close()
    finally:
        os.kill(survivor, signal.SIGKILL)
        os.close(ready)
        os.close(tell)


def test_a_forked_child_cannot_write_through_the_parents_store(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with open_store(path) as store:

        def child() -> None:
            try:
                store.commit(FAKE.setup())
            except StoreError:
                return
            raise AssertionError("two processes wrote")

        pid = in_child(child)
        assert os.waitpid(pid, 0)[1] == 0
        store.commit(FAKE.setup())
        assert len(store.runs()) == 1
        assert refusal(path)[0].owner


def test_a_subprocess_does_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    store = open_store(path)
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        store.close()
        open_store(path).close()
        assert sleeper.poll() is None  # it was there all the time
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_failed_opening_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    path.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    for _ in range(3):
        with pytest.raises(StoreError):
            open_store(path)
    path.unlink()
    open_store(path).close()


def test_releasing_twice_does_not_free_somebody_elses_descriptor(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / "pool.db")
    assert lock.held
    lock.release()
    with (tmp_path / "innocent").open("w") as file:  # likely reuses the descriptor's number
        lock.release()
        file.write("still open")
    assert not lock.held


def test_readers_do_not_need_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    with open_store(path) as store, open_reader(path) as one, open_reader(path) as other:
        store.commit(FAKE.setup())
        assert one.runs() == other.runs() == store.runs()


def test_never_two_holders_in_many_races(tmp_path: Path) -> None:
    """Children grab the lock at once; whoever has it must find the token of no one else.

    The token is made with O_EXCL and removed before the lock is given back: a second holder at
    the same time would trip over it.
    """
    path, token = tmp_path / "pool.db", tmp_path / "token"
    counts, tell = os.pipe()
    racers, rounds = 6, RACES // 6

    def race() -> None:
        won = 0
        for _ in range(rounds * 50):
            try:
                lock = WriterLock(path)
            except StoreLocked:
                continue
            won += 1
            os.close(os.open(token, os.O_CREAT | os.O_EXCL))
            token.unlink()
            lock.release()
            if won == rounds:
                break
        os.write(tell, won.to_bytes(4, "little"))

    pids = [in_child(race) for _ in range(racers)]
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    os.close(tell)
    wins = [int.from_bytes(os.read(counts, 4), "little") for _ in pids]
    os.close(counts)
    report(f"lock: {sum(wins)} times held by {racers} racers, never by two")
    assert statuses == [0] * racers
    assert sum(wins) >= 200


def test_a_lock_whose_file_was_withdrawn_meanwhile_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A withdraws between B's opening of the file and its lock: B must not hold a deleted file."""
    path = tmp_path / "pool.db"
    first = WriterLock(path)
    tried = lock._try_lock
    moments: list[int] = []

    def late(descriptor: int) -> bool:
        if not moments:
            first.withdraw()
        moments.append(descriptor)
        return tried(descriptor)

    monkeypatch.setattr(lock, "_try_lock", late)
    second = WriterLock(path)
    assert len(moments) == 2
    assert second.path.exists()
    with pytest.raises(StoreLocked):
        WriterLock(path)
    second.withdraw()
    assert not second.path.exists()


def test_it_can_be_seen_whether_another_writes(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    assert not is_held_elsewhere(path)
    assert list(tmp_path.iterdir()) == []  # looking leaves nothing behind
    with open_store(path):
        assert not is_held_elsewhere(path)
        holder = in_child(lambda: os._exit(0 if is_held_elsewhere(path) else 3))
        assert os.waitstatus_to_exitcode(os.waitpid(holder, 0)[1]) == 0
    assert not is_held_elsewhere(path)
    holder = start_holder(path)
    assert is_held_elsewhere(path)
    kill(holder)
    assert not is_held_elsewhere(path)
    WriterLock(path).release()


def test_the_lock_file_keeps_no_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["recollect", "pool", "copy", "postgres://u:SECRETPW@h/d"])
    held = WriterLock(tmp_path / "pool.db")
    assert "SECRETPW" not in held.path.read_text(encoding="utf-8")
    held.release()

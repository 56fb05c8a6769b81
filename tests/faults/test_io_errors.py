"""Places that cannot be written, files that vanish: an error by name, and back to work after."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from factories import FakeRun
from faults.disks import again_as_root_of_a_namespace, mount, small_disk
from recollect.errors import NotAStore, StoreError, StoreMissing, StoreReadOnly
from recollect.proof.killing import Victim, check_clean
from recollect.proof.life import make_life
from recollect.proof.logical import logical_dump
from recollect.store import open_reader
from recollect.store.sqlite import SqliteStore
from store.place import write_steps

JOURNALS = ("truncate", "wal")
FAKE = FakeRun(seed=14)


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    again_as_root_of_a_namespace(request.node.nodeid)
    with small_disk(tmp_path / "disk", 24 * 1024) as folder:
        yield folder


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Make a disk read-only for a while, as a kernel does that has met an error."""
    mount("-o", "remount,ro", str(disk))
    try:
        yield
    finally:
        mount("-o", "remount,rw", str(disk))


@contextmanager
def unchangeable(file: Path) -> Iterator[None]:
    """Forbid even root to change a file."""
    if shutil.which("chattr") is None:
        pytest.skip("NOT TESTED: there is no chattr command here")
    done = subprocess.run(["chattr", "+i", str(file)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"NOT TESTED: chattr cannot protect a file here ({done.stderr.strip()})")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", str(file)], check=True)


@pytest.mark.parametrize("journal", JOURNALS)
def test_a_read_only_disk_can_be_read(disk: Path, journal: str) -> None:
    """A store that was closed properly can be published on a read-only disk."""
    path = disk / "pool.db"
    with SqliteStore(path, journal=journal) as store:
        write_steps(store, FAKE, 3)
        before = logical_dump(store)
    with read_only(disk):
        with open_reader(path) as reader:
            assert logical_dump(reader) == before
            check_clean(reader)
            assert reader.sql("SELECT count(*) FROM pool")[1] == [(12,)]
        with pytest.raises(StoreReadOnly):
            SqliteStore(path, journal=journal)
        with pytest.raises(StoreReadOnly):
            SqliteStore(disk / "new.db", journal=journal)
        with pytest.raises(StoreReadOnly):
            SqliteStore(disk / "folder" / "new.db", journal=journal)
    with SqliteStore(path, journal=journal) as store:
        store.commit(FAKE.step(3))


@pytest.mark.parametrize("journal", JOURNALS)
def test_what_a_killed_writer_left_on_a_read_only_disk(disk: Path, journal: str) -> None:
    """It cannot be rolled back there: it is either read as it should be, or refused."""
    for number in range(8):
        victim = Victim(disk / f"{number}.db", journal, make_life(number, 30, tokens=50))
        told = victim._run_and_kill(5 + number, 0.0005 * number)
        before = victim.truth.after(victim.life[: told.done])
        after = before.after(victim.life[told.done : told.begun])
        with read_only(disk):
            try:
                with open_reader(victim.path) as reader:
                    assert "" in (before.differs_from(reader), after.differs_from(reader))
            except StoreError:
                pass
        with SqliteStore(victim.path, journal=journal) as store:
            assert "" in (before.differs_from(store), after.differs_from(store))


@pytest.mark.parametrize("journal", JOURNALS)
def test_a_disk_that_turns_read_only_under_the_writer(disk: Path, journal: str) -> None:
    """With files open for writing a remount is refused; a lost file shows the same error."""
    path = disk / "pool.db"
    with SqliteStore(path, journal=journal) as store:
        write_steps(store, FAKE, 2)
        before = logical_dump(store)
        store._connection.execute("PRAGMA query_only = ON")  # what SQLite then says
        with pytest.raises(StoreReadOnly):
            store.commit(FAKE.step(2))
        store._connection.execute("PRAGMA query_only = OFF")
        assert logical_dump(store) == before
        store.commit(FAKE.step(2))
        assert store.get(FAKE.ids(2)) == FAKE.trajectories(2)


@pytest.mark.parametrize("journal", JOURNALS)
def test_a_file_that_nobody_may_change(tmp_path: Path, journal: str) -> None:
    path = tmp_path / "pool.db"
    with SqliteStore(path, journal=journal) as store:
        write_steps(store, FAKE, 2)
        before = logical_dump(store)
    with unchangeable(path):
        with pytest.raises(StoreReadOnly):
            SqliteStore(path, journal=journal)
        if journal == "truncate":
            with open_reader(path) as reader:
                assert logical_dump(reader) == before
    with open_reader(path) as reader:
        assert logical_dump(reader) == before
        check_clean(reader)


def test_a_folder_that_nobody_may_change(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with unchangeable(folder), pytest.raises(StoreReadOnly):
        SqliteStore(folder / "pool.db")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("journal", JOURNALS)
def test_permissions(journal: str) -> None:
    """As somebody who may only read; a child becomes nobody, for permissions do not bind root."""
    folder = Path(tempfile.mkdtemp())
    path = folder / "pool.db"
    try:
        with SqliteStore(path, journal=journal) as store:
            write_steps(store, FAKE, 2)
            before = logical_dump(store)
        (folder / "closed").mkdir()
        folder.chmod(0o555)
        (folder / "closed").chmod(0)
        pid = os.fork()
        if pid == 0:
            os._exit(_look_as_nobody(path, before, journal))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def _look_as_nobody(path: Path, before: dict[str, object], journal: str) -> int:
    """Return 0 if everything that is not allowed is refused by name, and reading works."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        for place in (path, path.parent / "new.db", path.parent / "closed" / "pool.db"):
            with pytest.raises((StoreReadOnly, NotAStore)):
                SqliteStore(place)
        with pytest.raises((StoreMissing, NotAStore)):
            open_reader(path.parent / "closed" / "pool.db")
        try:
            with open_reader(path) as reader:
                return 0 if logical_dump(reader) == before else 2
        except StoreReadOnly:  # a WAL needs shared memory, which it may not make here
            return 0 if journal == "wal" else 3
    except BaseException:
        traceback.print_exc()
        return 1


@pytest.mark.parametrize("journal", JOURNALS)
def test_a_folder_that_vanishes(tmp_path: Path, journal: str) -> None:
    """Writing fails by name rather than into a file that nobody will find again."""
    folder = tmp_path / "folder"
    path = folder / "pool.db"
    with SqliteStore(path, journal=journal) as store, open_reader(path) as reader:
        write_steps(store, FAKE, 2)
        shutil.rmtree(folder)
        if journal == "truncate":
            with pytest.raises(StoreError):
                store.commit(FAKE.step(2))
        for look in (reader.stats, lambda: list(reader.verify()), lambda: reader.sql("SELECT 1")):
            try:
                look()
            except StoreError:
                continue
        with pytest.raises(StoreMissing):
            open_reader(path)
    assert not folder.exists()


def test_a_disk_that_vanishes(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Unmounted while nobody looks: missing, not empty; and nothing is made in its place."""
    again_as_root_of_a_namespace(request.node.nodeid)
    with small_disk(tmp_path / "disk", 8 * 1024) as disk:
        path = disk / "pool.db"
        with SqliteStore(path) as store:
            write_steps(store, FAKE, 1)
    with pytest.raises(StoreMissing):
        open_reader(path)
    assert list(disk.iterdir()) == []


def test_a_store_on_a_disk_without_inodes(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Room for bytes but not for another file: the lock cannot be made."""
    again_as_root_of_a_namespace(request.node.nodeid)
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=8m,nr_inodes=4", "tmpfs", str(folder))
    try:
        for number in range(3):
            (folder / f"{number}").touch()
        with pytest.raises(StoreError, match="room"):
            SqliteStore(folder / "pool.db")
        for number in range(3):
            (folder / f"{number}").unlink()
        with SqliteStore(folder / "pool.db") as store:
            write_steps(store, FAKE, 1)
    finally:
        subprocess.run(["umount", str(folder)], check=True)

"""A disk that is full: an error by name, nothing lost, and the same handle goes on afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from factories import FakeRun
from faults.disks import again_as_root_of_a_namespace, fill, small_disk
from memory import folder_in_memory
from recollect.errors import StoreFull
from recollect.proof.filling import check_true, do_until_full, stop_at_limit
from recollect.proof.killing import Tally, Victim, check_clean
from recollect.proof.life import RUN, Operation, Truth, do_all, make_life
from recollect.store import open_reader
from recollect.store.sqlite import SqliteStore
from reporting import report

BLOCK = 4096  # what a tmpfs gives and takes
OFFSETS = {"truncate": 50, "wal": 20}
STRIDE = {"truncate": 6 * BLOCK, "wal": 20 * BLOCK}
JOURNALS = tuple(OFFSETS)
LIFE = make_life(2, 18, tokens=3200)
TEN = FakeRun(2, RUN, tokens=200)
# Ten steps, the last four fenced: something to fence and something to reclaim.
STEPS = [
    Operation("commit", (TEN.setup(),)),
    *(Operation("commit", (TEN.step(step),)) for step in range(10)),
    Operation("fence", after=5),
]


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    again_as_root_of_a_namespace(request.node.nodeid)
    with small_disk(tmp_path / "disk", 24 * 1024) as folder:
        yield folder


def fresh_start(disk: Path) -> Path:
    """Empty the disk."""
    for file in disk.iterdir():
        file.unlink()
    return disk / "pool.db"


@pytest.mark.parametrize("journal", JOURNALS)
def test_commits_on_a_disk_that_fills_up(disk: Path, journal: str) -> None:
    """Each offset moves the end of the disk a little, through one transaction after another."""
    stopped_at: Counter[int] = Counter()
    for offset in range(OFFSETS[journal]):
        path = fresh_start(disk)
        with SqliteStore(path, journal=journal) as store:
            store.commit_all(LIFE[0].batches)
            ballast = fill(disk, leave=(offset + 1) * STRIDE[journal])
            done = 1 + do_until_full(store, LIFE[1:])
            stopped_at[done] += 1
            truth = Truth().after(LIFE[:done])
            assert not truth.differs_from(store), "what was acknowledged is still there"
            check_true(path, truth)
            ballast.unlink()
            do_all(store, LIFE[done:])
            check_true(path, Truth().after(LIFE))
    tried = f"{OFFSETS[journal]} offsets"
    report(f"disk full while committing ({journal}): {tried}, stopped at {stopped_at}")
    assert len(LIFE) not in stopped_at, "every offset must have met a full disk"
    assert len(stopped_at) > 2, "at different moments"


@pytest.mark.parametrize("journal", JOURNALS)
@pytest.mark.parametrize("kind", ["fence", "reclaim"])
def test_fencing_and_reclaiming_on_a_full_disk(disk: Path, journal: str, kind: str) -> None:
    """They either happen whole or not at all, and happen once there is room."""
    outcomes: Counter[str] = Counter()
    last = Operation(kind, after=3)
    for offset in range(8):
        path = fresh_start(disk)
        with SqliteStore(path, journal=journal) as store:
            do_all(store, STEPS)
            truth = Truth().after(STEPS)
            ballast = fill(disk, leave=offset * 24 * BLOCK)
            done = do_until_full(store, [last])
            outcomes["done" if done else "full"] += 1
            assert not truth.after([last][:done]).differs_from(store)
            ballast.unlink()
            check_true(path, truth.after([last][:done]))
            last.do(store)
            check_true(path, truth.after([last]))
    report(f"disk full while {kind} ({journal}): {dict(outcomes)}")
    assert outcomes["full"] > 2
    assert outcomes["done"] > 0


@pytest.mark.parametrize("journal", JOURNALS)
def test_making_and_opening_a_store_on_a_full_disk(disk: Path, journal: str) -> None:
    outcomes: Counter[str] = Counter()
    for offset in range(25):
        path = fresh_start(disk)
        ballast = fill(disk, leave=offset * 12 * BLOCK)
        try:
            with SqliteStore(path, journal=journal):
                outcomes["made"] += 1
        except StoreFull:
            outcomes["full"] += 1
        ballast.unlink()
        with SqliteStore(path, journal=journal) as store:
            check_clean(store)
            store.commit_all(LIFE[0].batches)
    report(f"disk full while making a store ({journal}): {dict(outcomes)}")
    assert outcomes["full"] > 10
    assert outcomes["made"] > 0


@pytest.mark.parametrize("journal", JOURNALS)
def test_opening_after_a_kill_on_a_full_disk(disk: Path, journal: str) -> None:
    """Rolling back what a killed writer left needs no room; a WAL needs some, and says so."""
    life = make_life(9, 30, tokens=200)
    tally = Tally()
    for number in range(5):
        victim = Victim(fresh_start(disk), journal, life)
        victim.kill_once(4 + 2 * number, 0.001 * number, tally)
        ballast = fill(disk, leave=0)
        try:
            with open_reader(victim.path) as reader:
                assert not victim.truth.differs_from(reader)
        except StoreFull:
            assert journal == "wal"
        ballast.unlink()
        check_true(victim.path, victim.truth)


# -- without a disk of our own -------------------------------------------------------------------


@pytest.mark.parametrize("journal", JOURNALS)
def test_a_size_limit_is_a_full_disk_too(journal: str) -> None:
    """SQLite's own limit on pages runs everywhere and meets every other page boundary."""
    with folder_in_memory() as folder:
        stopped_at = Counter(
            stop_at_limit(folder / f"{pages}.db", journal, LIFE, pages) for pages in range(0, 50, 3)
        )
    report(f"page limit ({journal}): {sum(stopped_at.values())} offsets, stopped at {stopped_at}")
    assert len(stopped_at) > 3

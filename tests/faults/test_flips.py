"""Bytes that change on the disk: in frames, anywhere in the file, and files that are cut off."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from factories import FakeRun
from faults.life import RUN, do_all, make_life
from faults.pages import Span, blob_spans
from logical import logical_dump
from memory import folder_in_memory
from recollect.errors import CorruptRecord, RecollectError
from recollect.store import open_reader, open_store
from recollect.store.records import Batch, Query
from recollect.store.sqlite import SqliteStore
from recollect.trajectory import Trajectory
from recollect.types import Status, TrajectoryId
from reporting import chosen_seed, report
from store.place import ANY

PAYLOAD_FLIPS = 10_000
ANYWHERE_QUICK, ANYWHERE_LONG = 500, 5_000


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


# -- in the frames -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frames:
    """A store file and where in it the bytes of each frame lie."""

    path: Path
    pristine: bytes
    spans: dict[TrajectoryId, list[Span]]
    rows: dict[TrajectoryId, Trajectory]

    def damage(self, chance: random.Random, hits: Iterable[TrajectoryId]) -> int:
        """Flip one byte in each of these frames; returns how many were flipped."""
        data = bytearray(self.pristine)
        count = 0
        for id_ in hits:
            at = chance.randrange(sum(length for _, length in self.spans[id_]))
            for start, length in self.spans[id_]:
                if at < length:
                    data[start + at] ^= chance.randrange(1, 256)
                    break
                at -= length
            count += 1
        self.path.write_bytes(data)
        return count


@pytest.fixture(params=["large", "small", "compressed"])
def frames(request: pytest.FixtureRequest, folder: Path) -> Frames:
    """Frames inside one page, across several, and as zstd makes them."""
    tokens, rows = {"large": (3200, 30), "small": (24, 100), "compressed": (600, 50)}[request.param]
    run = FakeRun(seed=5, rows=rows, tokens=tokens)
    path = folder / "pool.db"
    with SqliteStore(path, journal="truncate", compress=request.param == "compressed") as store:
        store.commit(run.setup())
        for step in range(5):
            store.commit(Batch(trajectories=run.trajectories(step)))
        listed = store.rows(ANY, limit=10_000).rows
        ids = [row.id for row in listed]
        stored = store.frames(ids)
        kept = dict(zip(ids, store.get(ids), strict=True))
    data = path.read_bytes()
    places = blob_spans(path, "payloads")
    spans = {row.id: places[row.seq] for row in listed}
    for id_, frame in zip(ids, stored, strict=True):
        assert b"".join(data[at : at + length] for at, length in spans[id_]) == frame
    return Frames(path, data, spans, kept)


def test_flipped_frames_are_found_and_set_aside(frames: Frames) -> None:
    """Every hit record is found, exactly those are quarantined, all others read back equal."""
    seed = chosen_seed("flips")
    chance = random.Random(seed)
    flips = rounds = 0
    while flips < PAYLOAD_FLIPS / 3:
        rounds += 1
        hits = set(chance.sample(list(frames.rows), chance.randint(1, int(len(frames.rows) * 0.9))))
        flips += frames.damage(chance, sorted(hits))
        with open_reader(frames.path) as reader:
            blamed = [finding.trajectory for finding in reader.verify()]
            assert sorted(str(id_) for id_ in blamed) == sorted(hits), f"RECOLLECT_SEED={seed}"
        with SqliteStore(frames.path, journal="truncate") as store:
            if rounds % 2:  # as `recollect pool verify` does it
                store.quarantine([id_ for id_ in blamed if id_ is not None], "damaged")
            else:  # as a training run meets it
                with pytest.raises(CorruptRecord):
                    store.get(list(frames.rows))
            aside = store.rows(Query(status=Status.QUARANTINED), limit=10_000).rows
            assert {row.id for row in aside} == hits, f"RECOLLECT_SEED={seed}"
            others = [id_ for id_ in frames.rows if id_ not in hits]
            assert store.get(others) == [frames.rows[id_] for id_ in others]
    report(f"flips in frames: {flips} in {rounds} rounds, all found, exactly the hit set aside")


@pytest.mark.parametrize("frames", ["small"], indirect=True)
def test_the_command_finds_them_too_and_exits_with_1(frames: Frames) -> None:
    seed = chosen_seed("flips, by command")
    chance = random.Random(seed)
    hits = set(chance.sample(list(frames.rows), 20))
    frames.damage(chance, sorted(hits))
    command = [sys.executable, "-m", "recollect", "pool", "verify", "--json", "--store"]
    for aside in (hits, set()):  # the second time there is nothing left to set aside
        done = subprocess.run(
            [*command, str(frames.path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stderr
        said = json.loads(done.stdout)
        assert {finding["trajectory"] for finding in said["findings"]} == hits
        assert set(said["quarantined"]) == aside


# -- anywhere ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """A store of every kind of record, and all that can be read of it."""

    path: Path
    data: bytes
    dump: dict[str, object]
    rows: dict[TrajectoryId, Trajectory]


def whole_store(folder: Path, journal: str) -> Whole:
    path = folder / "pool.db"
    with SqliteStore(path, journal=journal) as store:
        do_all(store, make_life(3, 16, tokens=50, rows=2))
        store.fence(RUN, 6, "so that there are fenced rows")
    with open_reader(path) as reader:
        dump = logical_dump(reader)
    rows = {row.id: row for row in dump["trajectories"]}
    return Whole(path, path.read_bytes(), dump, rows)


def judge(whole: Whole, path: Path, thoroughly: bool = True) -> str:
    """Look at a damaged file as anybody may; says how it ended, fails if it was misled.

    What verify has found need not be dumped as well, except to see that reading it fails by name.
    """
    outcome = "harmless"
    try:
        reader = open_reader(path)
    except RecollectError:
        return "refused"
    with reader:
        if list(reader.verify()):
            outcome = "found"
        for id_, row in whole.rows.items():
            try:
                assert reader.get([id_]) == [row], "a wrong record was returned as if it were right"
            except RecollectError:
                assert outcome == "found", "reading fails but verify finds nothing"
        assert whole.rows, "there must be something to read"
        if outcome == "found" and not thoroughly:
            return outcome
        try:
            same = logical_dump(reader) == whole.dump
        except RecollectError:
            same = False
    assert same or outcome == "found", "what is read has changed and verify finds nothing"
    return outcome


def flip_anywhere(whole: Whole, count: int, seed: int) -> Counter[str]:
    """Flip single bytes, half of them where something is written rather than empty pages."""
    chance = random.Random(seed)
    used = [at for at, byte in enumerate(whole.data) if byte]
    outcomes: Counter[str] = Counter()
    descriptor = os.open(whole.path, os.O_RDWR)
    for number in range(count):
        at = chance.choice(used) if number % 2 else chance.randrange(len(whole.data))
        flipped = whole.data[at] ^ chance.randrange(1, 256)
        os.pwrite(descriptor, bytes([flipped]), at)
        try:
            outcomes[judge(whole, whole.path, thoroughly=number % 3 == 0)] += 1
        except Exception as error:
            error.args = (f"RECOLLECT_SEED={seed} flip {number} at {at}: {error}",)
            raise
        os.pwrite(descriptor, whole.data[at : at + 1], at)
        if number % 10 == 0:
            write_after(whole, at, flipped)
    os.close(descriptor)
    assert whole.path.read_bytes() == whole.data, "reading must not have changed the file"
    return outcomes


def write_after(whole: Whole, at: int, flipped: int) -> None:
    """A writer that meets the damage fails by name, or goes on."""
    copy = whole.path.parent / "copy" / "pool.db"
    copy.parent.mkdir()
    data = bytearray(whole.data)
    data[at] = flipped
    copy.write_bytes(data)
    try:
        with open_store(copy) as store:
            store.fence(RUN, 3, "resume")
            store.commit(FakeRun(3, RUN, rows=2, tokens=50).step(4, variant=99))
            store.reclaim(fenced=True)
    except RecollectError:
        pass
    finally:
        shutil.rmtree(copy.parent)


@pytest.mark.parametrize("journal", ["truncate", "wal"])
def test_a_flip_anywhere_is_found_or_harmless(folder: Path, journal: str) -> None:
    seed = chosen_seed("flips anywhere")
    outcomes = flip_anywhere(whole_store(folder, journal), ANYWHERE_QUICK // 2, seed)
    report(f"flips anywhere ({journal}): {dict(outcomes)}")
    assert outcomes["found"] > 10
    assert outcomes["harmless"] > 10


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("journal", ["truncate", "wal"])
def test_many_flips_anywhere(folder: Path, journal: str) -> None:
    seed = chosen_seed("many flips anywhere")
    outcomes = flip_anywhere(whole_store(folder, journal), ANYWHERE_LONG // 2, seed)
    report(f"flips anywhere, long ({journal}): {dict(outcomes)}")
    assert outcomes["refused"] > 0


def test_every_byte_of_the_file_header(folder: Path) -> None:
    """The first hundred bytes decide how everything else is read."""
    whole = whole_store(folder, "truncate")
    outcomes: Counter[str] = Counter()
    descriptor = os.open(whole.path, os.O_RDWR)
    for at in range(100):
        for pattern in (1, 0x80, 0xFF) if at < 32 else (1,):
            os.pwrite(descriptor, bytes([whole.data[at] ^ pattern]), at)
            outcomes[judge(whole, whole.path)] += 1
            os.pwrite(descriptor, whole.data[at : at + 1], at)
    os.close(descriptor)
    report(f"flips in the header: {dict(outcomes)}")
    assert outcomes["refused"] > 50


def write_into(path: Path) -> None:
    with open_store(path) as store:
        do_all(store, make_life(4, 12))
        assert not list(store.verify()), "damage went unnoticed"


# -- cut off -------------------------------------------------------------------------------------


def test_a_file_that_is_cut_off_is_refused_or_found(folder: Path) -> None:
    whole = whole_store(folder, "truncate")
    size = len(whole.data)
    chance = random.Random(1)
    lengths = [1, 15, 16, 99, 100, 101, 4096, 16383, 16384, size - 1, size - 16384]
    lengths += [chance.randrange(1, size) for _ in range(40)]
    cut = folder / "cut.db"
    outcomes: Counter[str] = Counter()
    for length in lengths:
        cut.write_bytes(whole.data[:length])
        outcomes[judge(whole, cut)] += 1
        with pytest.raises(RecollectError):
            write_into(cut)
    report(f"cut off: {dict(outcomes)}")
    assert outcomes["harmless"] == 0

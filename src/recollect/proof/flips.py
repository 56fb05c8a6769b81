"""Bytes that change on the disk, and what must come of it.

A flip in a frame must be found by `verify` and by reading, exactly that row is set aside, and all
others read back equal. A flip anywhere else in the file must be found, or refused, or change
nothing that can be read.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import CorruptRecord, PromiseBroken, RecollectError
from recollect.proof.fake_run import FakeRun
from recollect.proof.life import RUN, do_all, make_life
from recollect.proof.logical import logical_dump
from recollect.proof.pages import Span, blob_spans
from recollect.store import open_reader, open_store
from recollect.store.records import Batch, Query
from recollect.store.sqlite import SqliteStore
from recollect.trajectory import Trajectory
from recollect.types import Status, TrajectoryId


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


def make_frames(path: Path, *, tokens: int, rows: int, compress: bool = False) -> Frames:
    """Write five steps of so many rows of so many tokens, and find their frames in the file."""
    run = FakeRun(seed=5, rows=rows, tokens=tokens)
    with SqliteStore(path, journal="truncate", compress=compress) as store:
        store.commit(run.setup())
        for step in range(5):
            store.commit(Batch(trajectories=run.trajectories(step)))
        listed = store.rows(Query(status=None), limit=10_000).rows
        ids = [row.id for row in listed]
        stored = store.frames(ids)
        kept = dict(zip(ids, store.get(ids), strict=True))
    data = path.read_bytes()
    places = blob_spans(path, "payloads")
    spans = {row.id: places[row.seq] for row in listed}
    for id_, frame in zip(ids, stored, strict=True):
        if b"".join(data[at : at + length] for at, length in spans[id_]) != frame:
            raise PromiseBroken(f"the frame of {id_} does not lie in the file as it was written")
    return Frames(path, data, spans, kept)


def flip_frames(frames: Frames, flips: int, seed: int) -> int:
    """Flip bytes in frames, round after round; returns how many were flipped.

    PromiseBroken unless every hit row is found, exactly those are set aside, and all others read
    back equal: by turns as `recollect pool verify` does it and as a training run meets it.
    """
    chance, done, rounds = random.Random(seed), 0, 0
    while done < flips:
        rounds += 1
        hits = set(chance.sample(list(frames.rows), chance.randint(1, int(len(frames.rows) * 0.9))))
        done += frames.damage(chance, sorted(hits))
        with open_reader(frames.path) as reader:
            blamed = [finding.trajectory for finding in reader.verify()]
        _same(sorted(str(id_) for id_ in blamed), sorted(hits), "verify blames", seed)
        with SqliteStore(frames.path, journal="truncate") as store:
            if rounds % 2:
                store.quarantine([id_ for id_ in blamed if id_ is not None], "damaged")
            else:
                _read_damaged(store, list(frames.rows), seed)
            aside = store.rows(Query(status=Status.QUARANTINED), limit=10_000).rows
            _same(sorted(row.id for row in aside), sorted(hits), "set aside are", seed)
            others = [id_ for id_ in frames.rows if id_ not in hits]
            if store.get(others) != [frames.rows[id_] for id_ in others]:
                raise PromiseBroken(f"RECOLLECT_SEED={seed} a row that was not hit has changed")
    frames.path.write_bytes(frames.pristine)
    return done


def _read_damaged(store: SqliteStore, ids: list[TrajectoryId], seed: int) -> None:
    try:
        store.get(ids)
    except CorruptRecord:
        return
    raise PromiseBroken(f"RECOLLECT_SEED={seed} damaged rows were read as if they were whole")


def _same(found: list[str], meant: list[TrajectoryId], what: str, seed: int) -> None:
    if found != meant:
        wrong = set(found) ^ set(meant)
        raise PromiseBroken(f"RECOLLECT_SEED={seed} {what} the wrong rows: {sorted(wrong)[:3]}")


@dataclass(frozen=True)
class Whole:
    """A store of every kind of record, and all that can be read of it."""

    path: Path
    data: bytes
    dump: dict[str, object]
    rows: dict[TrajectoryId, Trajectory]


def whole_store(folder: Path, journal: str) -> Whole:
    """Make a store that has lived a little."""
    path = folder / "pool.db"
    with SqliteStore(path, journal=journal) as store:
        do_all(store, make_life(3, 16, tokens=50, rows=2))
        store.fence(RUN, 6, "so that there are fenced rows")
    with open_reader(path) as reader:
        dump = logical_dump(reader)
    rows = {row.id: row for row in dump["trajectories"]}
    if not rows:
        raise PromiseBroken("there must be something to read")
    return Whole(path, path.read_bytes(), dump, rows)


def judge(whole: Whole, path: Path, thoroughly: bool = True) -> str:
    """Look at a damaged file as anybody may; says how it ended, PromiseBroken if it misled.

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
                right = reader.get([id_]) == [row]
            except RecollectError as error:
                if outcome != "found":
                    raise PromiseBroken("reading fails but verify finds nothing") from error
                continue
            if not right:
                raise PromiseBroken("a wrong record was returned as if it were right")
        if outcome == "found" and not thoroughly:
            return outcome
        try:
            same = logical_dump(reader) == whole.dump
        except RecollectError:
            same = False
    if not same and outcome != "found":
        raise PromiseBroken("what is read has changed and verify finds nothing")
    return outcome


def flip_anywhere(whole: Whole, count: int, seed: int) -> Counter[str]:
    """Flip single bytes, half of them where something is written rather than empty pages."""
    chance = random.Random(seed)
    used = [at for at, byte in enumerate(whole.data) if byte]
    outcomes: Counter[str] = Counter()
    descriptor = os.open(whole.path, os.O_RDWR)
    try:
        for number in range(count):
            at = chance.choice(used) if number % 2 else chance.randrange(len(whole.data))
            flipped = whole.data[at] ^ chance.randrange(1, 256)
            os.pwrite(descriptor, bytes([flipped]), at)
            try:
                outcomes[judge(whole, whole.path, thoroughly=number % 3 == 0)] += 1
            except PromiseBroken as error:
                what = f"RECOLLECT_SEED={seed} flip {number} at {at}: {error.what}"
                raise PromiseBroken(what) from error
            os.pwrite(descriptor, whole.data[at : at + 1], at)
            if number % 10 == 0:
                write_after(whole, at, flipped)
    finally:
        os.close(descriptor)
    if whole.path.read_bytes() != whole.data:
        raise PromiseBroken("reading has changed the file")
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
        return  # by name: anything else would have come through
    finally:
        shutil.rmtree(copy.parent)

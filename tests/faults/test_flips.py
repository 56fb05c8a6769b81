"""Bytes that change on the disk: in frames, anywhere in the file, and files that are cut off."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory import folder_in_memory
from recollect.errors import RecollectError
from recollect.proof.flips import (
    Frames,
    flip_anywhere,
    flip_frames,
    judge,
    make_frames,
    whole_store,
)
from recollect.proof.life import do_all, make_life
from recollect.store import open_store
from reporting import chosen_seed, report

PAYLOAD_FLIPS = 10_000
ANYWHERE_QUICK, ANYWHERE_LONG = 500, 5_000


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


# -- in the frames -------------------------------------------------------------------------------


@pytest.fixture(params=["large", "small", "compressed"])
def frames(request: pytest.FixtureRequest, folder: Path) -> Frames:
    """Frames inside one page, across several, and as zstd makes them."""
    tokens, rows = {"large": (3200, 30), "small": (24, 100), "compressed": (600, 50)}[request.param]
    compress = request.param == "compressed"
    return make_frames(folder / "pool.db", tokens=tokens, rows=rows, compress=compress)


def test_flipped_frames_are_found_and_set_aside(frames: Frames) -> None:
    """Every hit record is found, exactly those are quarantined, all others read back equal."""
    flips = flip_frames(frames, PAYLOAD_FLIPS // 3 + 1, chosen_seed("flips"))
    report(f"flips in frames: {flips}, all found, exactly the hit set aside")
    assert flips > PAYLOAD_FLIPS / 3


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

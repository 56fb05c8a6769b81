"""The promises, each with a trial of seconds that runs on the user's own disk.

`make test` and `make faults` do the same with larger numbers, and more beside.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from recollect.config.tree import shortened
from recollect.errors import BadConfig, NotTried, PromiseBroken, RecollectError
from recollect.errors.extras import install_command
from recollect.proof.drawing import ORDERS, enumerate_draws
from recollect.proof.filling import stop_at_limit
from recollect.proof.flips import flip_anywhere, flip_frames, make_frames, whole_store
from recollect.proof.life import make_life
from recollect.store.sqlite.journal import choose_journal

_KILLS, _FLIPS, _FLIPS_ANYWHERE, _PAGES = 25, 400, 60, range(0, 40, 8)
_STARTS, _PICKS = 50, 30


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised in words, and a trial in a folder that says what it saw.

    The trial raises PromiseBroken where the promise does not hold, NotTried where it cannot tell.
    """

    name: str
    words: str
    trial: Callable[[Path], str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a trial came to: `holds` is None where it could not be made."""

    name: str
    promise: str
    holds: bool | None
    evidence: str
    seconds: float


def prove(folder: Path, promises: Sequence[Promise] | None = None) -> Iterator[Verdict]:
    """Try promises one after the other, in a folder of their own that is removed in the end."""
    _seed()  # one that cannot be used is nobody's broken promise
    place = Path(tempfile.mkdtemp(prefix=".recollect-proof-", dir=folder))
    try:
        for promise in PROMISES if promises is None else promises:
            here = place / promise.name
            here.mkdir()
            yield _tried(promise, here)
            shutil.rmtree(here, ignore_errors=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _tried(promise: Promise, folder: Path) -> Verdict:
    started = time.perf_counter()
    holds: bool | None = True
    try:
        evidence = promise.trial(folder)
    except RecollectError as error:
        # A failure by any name is no proof: whatever was promised did not happen.
        holds, evidence = None if isinstance(error, NotTried) else False, error.what
    return Verdict(promise.name, promise.words, holds, evidence, time.perf_counter() - started)


def _journal(folder: Path) -> str:
    """Name the journal that a store in this folder would use."""
    return choose_journal(sqlite3.sqlite_version_info, folder)


def _kills(folder: Path) -> str:
    if not hasattr(os, "fork"):
        raise NotTried("this system has no fork and no kill -9")
    from recollect.proof.killing import kill_many

    return kill_many(folder, _journal(folder), _KILLS, _seed()).summary("kill -9")


def _flips(folder: Path) -> str:
    if not hasattr(os, "pwrite"):
        raise NotTried("this system cannot write into the middle of an open file")
    seed = _seed()
    frames = make_frames(folder / "frames.db", tokens=200, rows=20)
    inside = flip_frames(frames, _FLIPS, seed)
    outcomes = flip_anywhere(whole_store(folder, _journal(folder)), _FLIPS_ANYWHERE, seed)
    seen = ", ".join(f"{count} {name}" for name, count in outcomes.most_common())
    return f"{inside} flips in frames, all found; {_FLIPS_ANYWHERE} anywhere: {seen}, 0 misled"


def _full(folder: Path) -> str:
    life = make_life(2, 18, tokens=3200)
    journal = _journal(folder)
    stopped = [stop_at_limit(folder / f"{n}.db", journal, life, n) for n in _PAGES]
    if len(life) in stopped:
        raise PromiseBroken("a store was written beyond the limit of its file")
    where = ", ".join(map(str, stopped))
    return f"{len(stopped)} stores stopped by a limit on their file after {where} operations"


def _draws(folder: Path) -> str:
    found = enumerate_draws(folder / "pool.db", _STARTS, _PICKS)
    tried = f"{len(ORDERS)} orders x {_STARTS} starts x {_PICKS} picks"
    return f"{tried}, largest deviation {found:.1e}"


def _gradients(folder: Path) -> str:
    _needs_torch()
    from recollect.proof.estimators import LEVELS, PULLS, enumerate_corrections

    seeds = 3
    largest = enumerate_corrections(seeds)
    cases = len(PULLS) * len(LEVELS) * seeds
    return f"{cases} cases enumerated over all rows, largest difference {largest:.1e}"


def _resume(folder: Path) -> str:
    _needs_torch()
    if not hasattr(signal, "SIGKILL"):
        raise NotTried("this system has no kill -9")
    from recollect.proof.resuming import resume_exactly

    return resume_exactly(folder)


def _needs_torch() -> None:
    if any(find_spec(name) is None for name in ("torch", "transformers", "safetensors")):
        raise NotTried(f"needs a package that is not installed: {install_command('train')}")


def _seed() -> int:
    """Choose another seed each time; RECOLLECT_SEED=n makes a trial use that of a failure."""
    given = os.environ.get("RECOLLECT_SEED")
    if given is None:
        return random.SystemRandom().randrange(2**32)
    if not (given.isascii() and given.isdecimal() and len(given) < 20):
        what = f"RECOLLECT_SEED={shortened(given)} is not the seed of a trial."
        raise BadConfig([(what, "Unset it, or give the whole number that a failure named.")])
    return int(given)


# Kills first: forking is safest before torch has started threads.
PROMISES: tuple[Promise, ...] = (
    Promise("kills", "A trajectory reported as committed survives kill -9", _kills),
    Promise("flips", "A damaged record is noticed, set aside, and hurts no other", _flips),
    Promise("full", "A store without room loses nothing, and goes on when there is some", _full),
    Promise("draws", "A stored row is drawn exactly as often as the ledger says", _draws),
    Promise("gradients", "Corrections have the gradient that is documented", _gradients),
    Promise("resume", "A killed run goes on bit for bit as if nothing had happened", _resume),
)

"""Feeding the pool index: blocks of live rows as numpy columns, and what changed since."""

from __future__ import annotations

import math
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from recollect.store.records import PACK, Changes, Columns
from recollect.store.sqlite.connection import translated
from recollect.trajectory import Trajectory
from recollect.types import Origin

# Rows per read. Each block is a short transaction of its own: with a rollback journal a long
# one would keep the writer waiting.
_BLOCK = 32768
_PACKER = struct.Struct("<8id2f?B")  # PACK, field by field; much faster than a numpy record
assert _PACKER.size == PACK.itemsize
_ORIGINS = {origin: position for position, origin in enumerate(Origin)}

_LIVE = "fence = 0 AND status = 'live'"
_SELECT = "SELECT seq, pack, uses, ifnull(last_use, -1), pinned FROM trajectories"


def pack(
    trajectory: Trajectory,
    numbers: tuple[int, int, int],
    size: int,
    means: tuple[float | None, float | None],
) -> bytes:
    """Pack what the pool index keeps of a trajectory, as one PACK record.

    `numbers` are those of its task, run and provenance, `means` its mean entropy and log-prob.
    """
    t = trajectory
    return _PACKER.pack(
        *(*numbers, t.step, -1 if t.policy_version is None else t.policy_version),
        *(t.tokens.size, t.sampled_count, size, t.reward.value),
        *(math.nan if mean is None else mean for mean in means),
        *(t.success, _ORIGINS[t.origin]),
    )


def changes(connection: sqlite3.Connection, path: Path, since: int | None) -> Changes:
    """Compare the store with the change number an index last saw.

    The change number is read first and rows after it, so a commit in between shows up twice
    (now and at the next call) rather than never; an index treats rows it knows as updates.
    """
    with translated(path):
        meta = dict(connection.execute("SELECT key, value FROM meta"))
    change = int(meta["change"])
    gone: list[int] = []
    # Rows deleted for good leave no trace: an index older than the newest of them starts over.
    reset = since is None or since < int(meta["reclaimed"]) or since > change
    if not reset:
        query = f"SELECT seq FROM trajectories WHERE changed > ? AND NOT ({_LIVE})"
        with translated(path):
            gone = [row[0] for row in connection.execute(query, [since])]
    floor = -1 if reset or since is None else since
    blocks = _blocks(connection, path, floor)
    return Changes(change, reset, blocks, np.array(gone, dtype=np.int64))


def _blocks(connection: sqlite3.Connection, path: Path, since: int) -> Iterator[Columns]:
    changed = f" AND changed > {since:d}" if since >= 0 else ""
    query = f"{_SELECT} WHERE seq > ? AND {_LIVE}{changed} ORDER BY seq LIMIT {_BLOCK}"
    last = -1
    while True:
        with translated(path):
            rows = connection.execute(query, [last]).fetchall()
        if not rows:
            return
        seqs, packs, uses, last_uses, pinned = zip(*rows, strict=True)
        last = seqs[-1]
        yield Columns(
            seq=np.array(seqs, dtype=np.int64),
            pack=np.frombuffer(b"".join(packs), dtype=PACK),
            uses=np.array(uses, dtype=np.int32),
            last_use=np.array(last_uses, dtype=np.int32),
            pinned=np.array(pinned, dtype=np.bool_),
        )
        if len(rows) < _BLOCK:
            return

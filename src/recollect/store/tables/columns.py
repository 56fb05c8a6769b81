"""Feeding the pool index: blocks of live rows as numpy columns, and what changed since."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.errors import StoreDamaged
from recollect.store.address import Place
from recollect.store.records import PACK, Changes, Columns
from recollect.store.tables.database import Database
from recollect.trajectory import Trajectory
from recollect.types import Origin, RunId

# Rows per read. Each block is a short transaction of its own: with a rollback journal a long
# one would keep the writer waiting.
_BLOCK = 32768
_PACKER = struct.Struct("<8id2f?B")  # PACK, field by field; much faster than a numpy record
assert _PACKER.size == PACK.itemsize
_ORIGINS = {origin: position for position, origin in enumerate(Origin)}

_LIVE = "fence = 0 AND status = 'live'"
_SELECT = (
    "SELECT seq, pack, uses, {last}, pinned, advantage, priority, ess, ratio, "
    "changed FROM trajectories"
)
_LAST_USE = "coalesce(last_use, -1)"
_LAST_USE_BY = (  # only of rows that somebody used: the others need no look into the ledger
    "CASE WHEN last_use IS NULL THEN -1 ELSE coalesce((SELECT max(u.step) FROM uses u WHERE "
    "u.trajectory = trajectories.id AND u.fence = 0 "
    "AND u.run = (SELECT number FROM runs WHERE id = ?)), -1) END"
)
_BY_CHANGE = ("(changed, seq) > (?, ?)", "changed, seq")
_LAST_SEQ = 2**62
_SCORES = ("advantage", "priority", "ess", "ratio")
_MOST = float(np.finfo(np.float32).max)


def pack(
    trajectory: Trajectory,
    numbers: tuple[int, int, int],
    sizes: tuple[int, int],
    means: tuple[float | None, float | None],
) -> bytes:
    """Pack what the pool index keeps of a trajectory, as one PACK record.

    `numbers` are those of its task, run and provenance, `sizes` its sampled tokens and the
    bytes of its frame, `means` its mean entropy and log-prob.
    """
    t = trajectory
    return _PACKER.pack(
        *(*numbers, t.step, -1 if t.policy_version is None else t.policy_version),
        *(t.tokens.size, *sizes, t.reward.value),
        *(math.nan if mean is None else mean for mean in means),
        *(t.success, _ORIGINS[t.origin]),
    )


def changes(
    connection: Database, path: Place, since: int | None, run: RunId | None = None
) -> Changes:
    """Compare the store with the change number an index last saw.

    With a run, `last_use` is the latest step of that run: steps of different runs do not compare.

    The change number is read first and rows after it, so a commit in between shows up twice
    (now and at the next call) rather than never; an index treats rows it knows as updates.
    What was deleted for good is read last, or rows deleted while we look would be missed.
    """
    change = _counter(connection, path, "change")
    gone: list[int] = []
    if since is not None:
        query = f"SELECT seq FROM trajectories WHERE changed > ? AND NOT ({_LIVE})"
        with connection.translated():
            gone = [row[0] for row in connection.execute(query, [since])]
    # Rows deleted for good leave no trace: an index older than the newest of them starts over.
    deleted = _counter(connection, path, "reclaimed")
    reset = since is None or since < deleted or since > change
    blocks = _blocks(connection, path, None if reset else since, run)
    return Changes(change, reset, blocks, np.array([] if reset else gone, dtype=np.int64))


def _counter(connection: Database, path: Place, key: str) -> int:
    with connection.translated():
        row = connection.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchone()
    if row is None:
        raise StoreDamaged(path, f"its {key} number is missing")
    return int(row[0])


def _blocks(
    connection: Database, path: Place, since: int | None, run: RunId | None
) -> Iterator[Columns]:
    """Read live rows in order of arrival, or those that changed in the order they did."""
    # By `changed` a refresh costs as much as what changed, by `seq` it would walk the pool.
    after, order = ("seq > ?", "seq") if since is None else _BY_CHANGE
    select = _SELECT.format(last=_LAST_USE if run is None else _LAST_USE_BY)
    query = f"{select} WHERE {after} AND {_LIVE} ORDER BY {order} LIMIT {_BLOCK}"
    whose = [] if run is None else [run]
    last = [-1] if since is None else [since, _LAST_SEQ]
    while True:
        with connection.translated():
            rows = connection.execute(query, [*whose, *last]).fetchall()
        if rows:
            yield _columns(path, rows)
            seq, changed = rows[-1][0], rows[-1][-1]
            last = [seq] if since is None else [changed, seq]
        if len(rows) < _BLOCK:
            return


def _columns(path: Place, rows: list[tuple[Any, ...]]) -> Columns:
    seqs, packs, uses, last_uses, pinned, *scores, _ = zip(*sorted(rows), strict=True)
    try:
        return Columns(
            seq=np.array(seqs, dtype=np.int64),
            pack=np.frombuffer(b"".join(packs), dtype=PACK),
            uses=np.array(uses, dtype=np.int32),
            last_use=np.array(last_uses, dtype=np.int32),
            pinned=np.array(pinned, dtype=np.bool_),
            **dict(zip(_SCORES, map(_floats, scores), strict=True)),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise StoreDamaged(path, f"rows cannot be read ({error})") from error


def _floats(values: Sequence[float | None]) -> NDArray[np.float32]:
    """Turn None into NaN, and what float32 cannot hold into the largest number that it can."""
    return np.clip(np.array(values, dtype=np.float64), -_MOST, _MOST).astype(np.float32)

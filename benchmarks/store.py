"""The store against plain sqlite3 with the same durability, and how it grows with the pool.

    python benchmarks/store.py            about five minutes; --quick for a look in one

Both sides are measured in turns in one run, because the machine is shared: only ratios mean
something. "Plain" is one table (id TEXT PRIMARY KEY, frame BLOB) in the same journal mode with
synchronous=FULL. Ours starts from records and ends with records. Plain is given ready-made bytes
(`commit_ratio`) or makes them from the same records (`commit_records_ratio`). It reads bytes
(`read_frames_ratio`; ours are checked), bytes with two arrays and the parsed JSON of each
(`read_records_ratio`), or all that a record holds, checked, but no record (`read_checked_ratio`).
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import tempfile
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from recollect import Batch, Pool, Segment, Task, Trajectory, open_reader, open_store
from recollect.ledger import Run
from recollect.store import codec
from recollect.store.base import Store
from recollect.types import (
    GroupId,
    Origin,
    Reward,
    RunId,
    Sampling,
    SegmentKind,
    TrajectoryId,
    trajectory_id,
)
from results_file import spread, write_results

RUN = RunId("bench")
SEED = 7
GROUP = 64
TASKS = [Task("desk:airline", f"task-{number}") for number in range(1000)]


def make_rows(start: int, count: int, tokens: int) -> list[Trajectory]:
    """Build trajectories of twelve segments, half of their tokens sampled."""
    rng = np.random.default_rng([SEED, start])
    turn = tokens // 12
    kinds = [SegmentKind.SYSTEM, SegmentKind.USER, *[SegmentKind.ASSISTANT, SegmentKind.TOOL] * 5]
    segments, sampled = [], np.zeros(tokens, dtype=np.bool_)
    for number, kind in enumerate(kinds):
        end = tokens if number == 11 else (number + 1) * turn
        segments.append(Segment(kind, number * turn, end, f"turn {number}"))
        sampled[number * turn : end] = kind is SegmentKind.ASSISTANT
    total = int(sampled.sum())
    rows = []
    for number in range(start, start + count):
        task = TASKS[number % len(TASKS)]
        rows.append(
            Trajectory(
                id=trajectory_id(RUN, number // GROUP, task.key, number),
                task=task.key,
                run=RUN,
                step=number // GROUP,
                group=GroupId(f"g{number // 8}"),
                origin=Origin.FRESH,
                policy_version=number // GROUP,
                tokens=rng.integers(0, 1024, tokens, dtype=np.int32),
                sampled=sampled,
                logprobs=-rng.random(total, dtype=np.float32),
                entropies=rng.random(total, dtype=np.float32),
                segments=tuple(segments),
                reward=Reward(float(number % 2)),
                success=bool(number % 2),
                sampling=Sampling(),
                tokenizer="bench",
            )
        )
    return rows


def new_store(path: Path) -> Store:
    """Open an empty store that knows the run and its tasks."""
    store = open_store(path)
    store.commit(Batch(runs=[Run(RUN)], tasks=TASKS))
    return store


def new_plain(path: Path, journal: str) -> sqlite3.Connection:
    """Open the plain table with the same durability."""
    plain = sqlite3.connect(path, isolation_level=None)
    plain.execute(f"PRAGMA journal_mode = {journal}")
    plain.execute("PRAGMA synchronous = FULL")
    plain.execute("CREATE TABLE frames (id TEXT PRIMARY KEY, frame BLOB)")
    return plain


def plain_commit(plain: sqlite3.Connection, rows: list[tuple[str, bytes]]) -> None:
    """Commit ready-made bytes."""
    plain.execute("BEGIN IMMEDIATE")
    plain.executemany("INSERT INTO frames VALUES (?, ?)", rows)
    plain.execute("COMMIT")


def encode_all(rows: list[Trajectory]) -> list[tuple[str, bytes]]:
    """Turn records into what the plain table is given."""
    return [(row.id, codec.encode(row)) for row in rows]


def plain_read(plain: sqlite3.Connection, ids: list[TrajectoryId]) -> dict[str, bytes]:
    """Read bytes by id."""
    marks = ",".join("?" * len(ids))
    return dict(plain.execute(f"SELECT id, frame FROM frames WHERE id IN ({marks})", ids))


def plain_decode(frame: bytes, tokens: int, total: int) -> tuple[object, ...]:
    """Do what plain code would do with such bytes: two views and one json.loads."""
    return (
        np.frombuffer(frame, "<i4", tokens, 32),
        np.frombuffer(frame, "<f4", total, 32 + 4 * tokens),
        json.loads(frame[32 + 4 * tokens + 8 * total + (tokens + 7) // 8 :]),
    )


def plain_decode_all(frame: bytes, tokens: int, total: int) -> tuple[object, ...]:
    """Check such bytes and read all that is in them: also the entropies and the mask."""
    codec.check(frame)
    start = 32 + 4 * tokens + 8 * total
    bits = np.frombuffer(frame, np.uint8, (tokens + 7) // 8, start)
    return (
        *plain_decode(frame, tokens, total),
        np.frombuffer(frame, "<f4", total, 32 + 4 * (tokens + total)),
        np.unpackbits(bits, count=tokens, bitorder="little").view(np.bool_),
    )


def plain_records(
    plain: sqlite3.Connection,
    ids: list[TrajectoryId],
    decode: Callable[[bytes, int, int], object],
    tokens: int,
    total: int,
) -> list[object]:
    """Read bytes by id and decode them."""
    return [decode(frame, tokens, total) for frame in plain_read(plain, ids).values()]


def open_and_close(path: Path) -> None:
    """Open a store as its writer."""
    open_store(path).close()


def against_plain(folder: Path, rounds: int, tokens: int) -> dict[str, object]:
    """Commit in groups of 64 and read at random, ours and plain in turns."""
    store = new_store(folder / "ours.db")
    plain = new_plain(folder / "plain.db", store.stats().journal)
    groups = [make_rows(number * GROUP, GROUP, tokens) for number in range(rounds)]
    commit_ours, commit_plain, commit_encoded = [], [], []
    for rows in groups:
        ready = encode_all(rows)
        commit_ours.append(GROUP / timed(store.commit, Batch(trajectories=rows)))
        writing = timed(plain_commit, plain, ready)
        commit_plain.append(GROUP / writing)
        commit_encoded.append(GROUP / (writing + timed(encode_all, rows)))
    ids = [row.id for rows in groups for row in rows]
    total = groups[0][0].sampled_count
    reads: dict[str, list[float]] = defaultdict(list)
    chooser = random.Random(SEED)
    for _ in range(rounds):
        some = chooser.sample(ids, GROUP)
        reads["frames"].append(GROUP / timed(store.frames, some))
        reads["plain"].append(GROUP / timed(plain_read, plain, some))
        reads["records"].append(GROUP / timed(store.get, some))
        for decode in (plain_decode, plain_decode_all):
            seconds = timed(plain_records, plain, some, decode, tokens, total)
            reads[decode.__name__].append(GROUP / seconds)
    figures: dict[str, object] = {
        "journal": store.stats().journal,
        "row_bytes": len(codec.encode(groups[0][0])),
        "commit_rows_per_s": spread(commit_ours),
        "commit_ratio": spread(ratios(commit_ours, commit_plain)),
        "commit_records_ratio": spread(ratios(commit_ours, commit_encoded)),
        "read_frames_ratio": spread(ratios(reads["frames"], reads["plain"])),
        "read_records_ratio": spread(ratios(reads["records"], reads["plain_decode"])),
        "read_checked_ratio": spread(ratios(reads["records"], reads["plain_decode_all"])),
        "read_records_per_s": spread(reads["records"]),
    }
    store.close()
    plain.close()
    return figures


def growth(folder: Path, sizes: list[int], tokens: int) -> list[dict[str, float]]:
    """Fill one store further and further; at each size open it, index it, commit and read."""
    path = folder / "growing.db"
    store, filled, table = new_store(path), 0, []
    for size in sizes:
        while filled < size:
            block = min(4096, size - filled)
            store.commit(Batch(trajectories=make_rows(filled, block, tokens)))
            filled += block
        store.close()
        opening = timed(open_and_close, path)
        with open_reader(path) as reader:
            indexing = timed(Pool, reader)
            tracemalloc.start()
            pool = Pool(reader)
            memory = tracemalloc.get_traced_memory()[0] / len(pool)
            tracemalloc.stop()
            some = np.array(random.Random(SEED).sample(range(len(pool)), GROUP))
            reading = timed(pool.read, some)
            following = timed(pool.refresh)
        store = open_store(path)
        commits = []
        for _ in range(10):
            rows = make_rows(filled, GROUP, tokens)
            commits.append(GROUP / timed(store.commit, Batch(trajectories=rows)))
            filled += GROUP
        table.append(
            {
                "rows": size,
                "open_ms": opening * 1e3,
                "index_s": indexing,
                "bytes_per_row": memory,
                "refresh_ms": following * 1e3,
                "read_64_ms": reading * 1e3,
                "commit_rows_per_s": spread(commits)["median"],
                "file_mb": path.stat().st_size / 1e6,
            }
        )
    store.close()
    return table


def timed(action: Callable[..., object], *arguments: object) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    action(*arguments)
    return time.perf_counter() - start


def ratios(ours: list[float], plain: list[float]) -> list[float]:
    """Pairwise, so that a busy moment hits both sides."""
    return [a / b for a, b in zip(ours, plain, strict=True)]


def show(figures: dict[str, object], table: list[dict[str, float]]) -> None:
    """Print both tables."""
    console = Console()
    first = Table("against plain sqlite3", "median", "min", "max", title="Ratios in one run")
    for name, value in figures.items():
        if isinstance(value, dict):
            first.add_row(name, *(f"{value[key]:,.2f}" for key in ("median", "min", "max")))
        else:
            first.add_row(name, str(value), "", "")
    console.print(first)
    second = Table(*table[0], title="Growth with the pool")
    for row in table:
        second.add_row(*(f"{value:,.1f}" for value in row.values()))
    console.print(second)


def main() -> None:
    """Run everything and write benchmarks/results/store.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, up to 10 k rows")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="recollect-bench-", dir=".") as folder:
        figures = against_plain(Path(folder), 20 if quick else 100, tokens=2600)
        table = growth(Path(folder), [1000, 10_000] if quick else [10_000, 100_000, 1_000_000], 48)
    show(figures, table)
    if not quick:
        path = write_results(
            "store", {"against_plain": figures, "growth": table}, [SEED], ["numpy", "google-crc32c"]
        )
        Console().print(f"written to {path}")


if __name__ == "__main__":
    main()

"""The store at work: a writer is killed with SIGKILL again and again, and loses nothing.

A child process samples (invented) customer-service conversations and commits them step by
step. After each commit it tells us, through a pipe, which trajectories are now durable. We
kill it at random moments and look whether everything it told us about is there, bit for bit.

    python examples/store_demo.py [--kills N] [--store NEW_FOLDER]

Offline, less than a minute. The words below are invented, and so are the rewards and
log-probs: there is no model yet. Everything else goes through the real interface.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from recollect import Batch, Query, Segment, Task, Trajectory, open_reader, open_store
from recollect.ledger import Cursor, Run
from recollect.types import (
    Origin,
    Reward,
    RunId,
    Sampling,
    SegmentKind,
    ToolCall,
    group_id,
    trajectory_id,
)

RUN = RunId("demo")
ROWS = 8  # trajectories per step, one transaction
CITIES = ["Lisbon", "Oslo", "Kyoto", "Quito", "Accra", "Turin"]
TASKS = [
    Task("demo:airline", f"{kind}-{city.lower()}", domain=kind, query=f"A passenger to {city}")
    for kind in ("rebook", "seats")
    for city in CITIES
]


def conversation(task: Task, success: bool) -> list[Segment]:
    """Invent who says what; tokens are the bytes of the text."""
    city = task.id.partition("-")[2].title()
    tool, arguments, result = {
        "rebook": ("rebook", {"booking": "QX7", "to": city, "day": "Friday"}, {"fee": 25}),
        "seats": ("list_seats", {"flight": f"RC{len(city)}12", "kind": "window"}, {"free": ["4A"]}),
    }[task.domain]
    call = ToolCall(tool, json.dumps(arguments), "call-1")
    answer = f"All done: {json.dumps(result)}." if success else "I am sorry, I cannot do that."
    spoken = [
        (SegmentKind.SYSTEM, "You are an airline's clerk. Use the tools; be brief.", {}),
        (SegmentKind.USER, f"Hello, I fly to {city} and need help with {task.domain}.", {}),
        (SegmentKind.ASSISTANT, "Let me look.", {"calls": (call,)}),
        (SegmentKind.TOOL, json.dumps(result), {"name": tool, "call_id": "call-1"}),
        (SegmentKind.ASSISTANT, answer, {}),
    ]
    segments, at = [], 0
    for kind, text, view in spoken:
        segments.append(Segment(kind, at, at + len(text.encode()), text, **view))  # type: ignore[arg-type]
        at = segments[-1].end
    return segments


def sample(step: int, row: int) -> Trajectory:
    """Make one attempt; the same step and row always give the same one, bit for bit."""
    rng = np.random.default_rng([step, row])
    task = TASKS[(step + row) % len(TASKS)]
    success = bool(rng.random() < min(0.9, 0.2 + step / 500))
    segments = conversation(task, success)
    spoken = [s.kind is SegmentKind.ASSISTANT for s in segments for _ in range(s.start, s.end)]
    text = "".join(segment.text for segment in segments)
    return Trajectory(
        id=trajectory_id(RUN, step, task.key, row),
        task=task.key,
        run=RUN,
        step=step,
        group=group_id(RUN, step, task.key),
        origin=Origin.FRESH,
        policy_version=step,
        tokens=np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32),
        sampled=np.array(spoken),
        logprobs=-rng.exponential(0.4, sum(spoken)).astype(np.float32),
        entropies=rng.exponential(0.5, sum(spoken)).astype(np.float32),
        segments=tuple(segments),
        reward=Reward(float(success), {"state": float(success)}),
        success=success,
        sampling=Sampling(temperature=1.0),
        tokenizer="utf-8 bytes",
    )


def write(store_path: Path, step: int) -> None:
    """Commit step after step until somebody ends us; print each step once it is durable."""
    with open_store(store_path) as store:
        store.commit(Batch(runs=[Run(RUN)], tasks=TASKS))
        while True:
            rows = [sample(step, row) for row in range(ROWS)]
            store.commit(Batch(trajectories=rows, cursors=[Cursor(RUN, step, step)]))
            os.write(1, f"{step}\n".encode())  # only now does anybody hear of it
            step += 1


def kill_once(store_path: Path, step: int, rng: random.Random) -> list[int]:
    """Start a writer, kill it at a random moment, return the steps it acknowledged."""
    command = [sys.executable, __file__, "--write", str(step), "--store", str(store_path.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        if not first:
            raise SystemExit("The writer ended before its first step.")
        time.sleep(rng.uniform(0.0, 0.6))
        writer.send_signal(signal.SIGKILL)
        told = (first + writer.stdout.read()).splitlines(keepends=True)
    return [int(line) for line in told if line.endswith(b"\n")]


def check(store_path: Path, told: list[int]) -> tuple[int, int, int]:
    """Compare the store with what was acknowledged: rows there, lost or changed, unannounced."""
    with open_reader(store_path) as reader:
        expected = {t.id: t for step in told for t in (sample(step, row) for row in range(ROWS))}
        stored, after = [], None
        while True:
            page = reader.rows(Query(run=RUN), after, 1000)
            stored += [row.id for row in page.rows]
            after = page.next
            if after is None:
                break
        there = [id_ for id_ in stored if id_ in expected]
        intact = sum(expected[found.id] == found for found in reader.get(there))
        return intact, len(expected) - intact, len(stored) - len(there)


def recollect(*arguments: str) -> int:
    """Run the real command, echoed as one would type it."""
    print(f"\n$ recollect {' '.join(arguments)}", flush=True)
    return subprocess.run([sys.executable, "-m", "recollect", *arguments], check=False).returncode


def main() -> int:
    """Kill, look, tell."""
    parser = argparse.ArgumentParser(description="The store at work, and under attack.")
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--store", type=Path, metavar="FOLDER", help="a new folder, to keep")
    parser.add_argument("--write", type=int, default=-1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write >= 0:
        write(options.store / "store.db", options.write)
    folder = options.store or Path(tempfile.mkdtemp(prefix="recollect-demo-"))
    store_path = folder / "store.db"
    if store_path.exists():
        print(f"{store_path} is there already; name a new folder.")
        return 2

    print(f"A child process commits {ROWS} trajectories per step to {store_path}.")
    print(f"We kill it {options.kills} times with SIGKILL and compare with what it acknowledged.\n")
    print("kill   acknowledged   intact   lost   committed but not yet acknowledged")
    rng, told, lost = random.Random(), list[int](), 0
    for number in range(1, options.kills + 1):
        told += kill_once(store_path, max(told, default=-1) + 1, rng)
        intact, lost, extra = check(store_path, told)
        print(f"{number:4} {len(told) * ROWS:14,} {intact:8,} {lost:6,} {extra:9,}", flush=True)
        if lost:
            break

    where = ("--store", str(folder))
    damaged = recollect("pool", "verify", *where)
    with open_reader(store_path) as reader:
        newest = reader.rows(Query(success=True), limit=1, newest_first=True).rows[0]
    recollect("pool", "show", newest.id[:10], *where)
    if lost or damaged:
        print("\nThe store broke its promise. Please report this, with the folder above.")
        return 1
    print(f"\nThe writer died {options.kills} times in the middle of its work. What it had")
    print(
        f"acknowledged, {len(told) * ROWS:,} trajectories, is there, bit for bit. A step that was"
    )
    print("committed but not yet acknowledged may be there too, whole: the next writer commits it")
    print("again, and the store knows it already. Try next:\n")
    ask = "SELECT domain, avg(reward) FROM pool GROUP BY domain"
    for command in ("stats", "ls --failed -n 5", f'sql "{ask}"'):
        print(f"  recollect pool {command} --store {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

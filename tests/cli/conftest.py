"""A store with something of everything, and ways to run the real command line on it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing
from typer.testing import CliRunner, Result

from postgres_server import new_address
from recollect.cli.main import app
from recollect.ledger import Cursor, Draw, Mark, Run, Use
from recollect.store import open_store
from recollect.store.address import PostgresAddress
from recollect.store.records import Batch
from recollect.trajectory import Trajectory
from recollect.types import (
    Action,
    Origin,
    Reward,
    RunId,
    Sampling,
    Segment,
    SegmentKind,
    Task,
    ToolCall,
    group_id,
    trajectory_id,
)

# Building the commands takes ten times as long as running one: do it once, not per test.
typer.testing._get_command = functools.lru_cache(8)(typer.testing._get_command)

AIRLINE = [Task("desk:airline", f"air-{i}", domain="airline", level=i) for i in range(3)]
RETAIL = [Task("desk:retail", "ret-0", domain="retail", query="Where is my parcel?")]


def make_trajectory(
    number: int, task: Task, run: str = "alpha", step: int = 0, *, text: str = "", **other: Any
) -> Trajectory:
    """Build one short attempt with a tool call; the number decides tokens and success."""
    rng = np.random.default_rng(number)
    words = text or f"I look it up (attempt {number})."
    spans = [
        (SegmentKind.SYSTEM, 6, {"text": "You are a clerk."}),
        (SegmentKind.USER, 5, {"text": "Where is my booking?"}),
        (
            SegmentKind.ASSISTANT,
            8,
            {"text": words, "calls": (ToolCall("find", '{"code":"QX7","deep":[1,2]}', "call-1"),)},
        ),
        (SegmentKind.TOOL, 4, {"text": '{"gate": 12}', "name": "find", "call_id": "call-1"}),
        (SegmentKind.ASSISTANT, 5, {"text": "Gate 12."}),
    ]
    segments, sampled, at = [], [], 0
    for kind, length, view in spans:
        segments.append(Segment(kind, at, at + length, **view))  # type: ignore[arg-type]
        sampled += [kind is SegmentKind.ASSISTANT] * length
        at += length
    success = number % 2 == 0
    values: dict[str, Any] = {
        "id": trajectory_id(RunId(run), step, task.key, number),
        "task": task.key,
        "run": RunId(run),
        "step": step,
        "group": group_id(RunId(run), step, task.key),
        "origin": Origin.FRESH,
        "policy_version": step,
        "tokens": rng.integers(0, 1000, at).astype(np.int32),
        "sampled": np.array(sampled),
        "logprobs": -rng.random(13, dtype=np.float32),
        "entropies": rng.random(13, dtype=np.float32),
        "segments": tuple(segments),
        "reward": Reward(float(success), {"state": 0.75 * success, "answer": 0.25 * success}),
        "success": success,
        "sampling": Sampling(temperature=0.8),
        "tokenizer": "tok-1",
    }
    return Trajectory(**(values | other))


@dataclass(frozen=True)
class Filled:
    """A filled store and the trajectories in it, in order of arrival."""

    path: Path
    items: list[Trajectory]


def fill(path: Path) -> Filled:
    """Two runs, two domains, steps 0 to 3; row 0 used twice, 1 banned, 2 pinned, 3 evicted."""
    tasks = [*AIRLINE, *RETAIL]
    items = [make_trajectory(i, tasks[i % 4], "alpha", i // 4) for i in range(12)]
    items += [make_trajectory(100 + i, RETAIL[0], "beta", 40 + i) for i in range(2)]
    demo = make_trajectory(200, AIRLINE[0], "beta", 41, origin=Origin.DEMO, policy_version=None,
                           logprobs=None, entropies=None, sampling=None)  # fmt: skip
    items.append(demo)
    alpha = RunId("alpha")
    with open_store(path) as store:
        runs = [Run(alpha, 7), Run(RunId("beta"))]
        store.commit(Batch(runs=runs, tasks=tasks, trajectories=items))
        for step in (1, 2):
            draw = Draw(alpha, step, 0, items[0].id, items[0].group, step, 0.5, "mix")
            use = Use(alpha, step, 0, items[0].id, ratio_mean=1.1)
            store.commit(Batch(draws=[draw], uses=[use]))
        store.commit(
            Batch(
                marks=[
                    Mark(items[1].id, Action.BAN, "rude"),
                    Mark(items[2].id, Action.PIN, ""),
                    Mark(items[3].id, Action.EVICT, "budget", alpha, 1),
                ],
                cursors=[Cursor(alpha, 2, 3)],
            )
        )
    return Filled(path, items)


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return fill(tmp_path_factory.mktemp("store") / "pool.db")


@pytest.fixture
def filled(filled_once: Filled, tmp_path: Path) -> Filled:
    """A copy of the filled store that a test may change."""
    path = tmp_path / "pool.db"
    path.write_bytes(filled_once.path.read_bytes())
    return Filled(path, filled_once.items)


Invoke = Callable[..., Result]


def invoke(*arguments: object, input: str | bytes | None = None, env: Any = None) -> Result:
    """Run the real app in this process; an unknown exception fails the test."""
    names = {"RECOLLECT_STORE": None, "COLUMNS": "80"} | (env or {})
    result = CliRunner(env=names).invoke(
        app, [str(argument) for argument in arguments], input=input, catch_exceptions=False
    )
    assert "bug in Recollect" not in result.stderr, result.stderr
    return result


def ask_json(*arguments: object) -> Any:
    """Run a command with --json, which must succeed and print one document."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def run_process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `python -m recollect` as a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "RECOLLECT_STORE"}
    command = [sys.executable, "-m", "recollect", *map(str, arguments)]
    options = {"capture_output": True, "text": True, "timeout": 60, "env": environment} | options
    return subprocess.run(command, check=False, **options)


def assert_refused(result: Result, *words: str) -> None:
    """Check for one sentence and a next step on stderr, exit code 2, nothing else."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    first, *rest = result.stderr.splitlines()
    assert first.startswith("error: ")
    assert rest, "no next step was given"
    assert all(line.startswith("  ") for line in rest)
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr


@pytest.fixture
def address() -> Iterator[PostgresAddress]:
    """An address in a PostgreSQL database at which there is no store yet."""
    with new_address() as address:
        yield address


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model; torch is imported only where one is asked for."""
    from train.small import make_model

    return make_model(tmp_path_factory.mktemp("model") / "small")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a configuration and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text("run:\n  seed: 5\n")
    return tmp_path

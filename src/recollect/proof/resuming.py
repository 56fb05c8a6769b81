"""A run that is killed and resumed must end as one that nobody disturbed: bit for bit."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from recollect.errors import NotTried, PromiseBroken
from recollect.proof.traces import trace
from recollect.train.checkpoint import last_saved_step

_ATTEMPTS = 3
_SECONDS = 600.0  # for one run of a few seconds, on a machine that is busy
# Seconds of training: the built-in model on two tasks a step, with every use of the pool.
SETTINGS = (
    "run.steps=4",
    "run.name=run",
    "model.name=tiny",
    "environment.name=desk:airline",
    "environment.options.size=6",
    "environment.tasks=4",
    "environment.levels=[1]",
    "rollout.tasks_per_step=2",
    "rollout.rows_per_task=4",
    "rollout.batch_rows=8",
    "rollout.max_tokens=400",
    "rollout.max_turn_tokens=24",
    "rollout.max_turns=3",
    "replay.modes=[mix,repair,buffer]",
    "replay.buffer_rows=4",
    "eval.every=0",
    "checkpoint.every=2",
)


def resume_exactly(folder: Path, settings: Sequence[str] = SETTINGS, lines: int = 3) -> str:
    """Train twice, once killed after `lines` steps and resumed; says what was compared.

    PromiseBroken where anything that can be repeated differs: metrics, rows and their
    status, draws, uses, scores, weights.
    """
    whole = folder / "whole"
    _to_the_end(["train", *_command(whole, settings)])
    killed = _killed_run(folder, settings, lines)
    saved = last_saved_step(killed / "run" / "checkpoints")
    _to_the_end(["resume", str(killed / "run")])
    meant, found = trace(whole / "run"), trace(killed / "run")
    for part, wanted in meant.items():
        if found[part] != wanted:
            raise PromiseBroken(f"after kill -9 and resume the run's {part} differs")
    rows, steps = len(meant["store"]["rows"]), len(meant["metrics"])
    return (
        f"killed after step {lines}, resumed from step {saved}: {steps} steps, {rows} rows and all "
        "weights equal"
    )


def _killed_run(folder: Path, settings: Sequence[str], lines: int) -> Path:
    """Kill a run after so many lines of metrics; a run that ends before we look is tried again."""
    for attempt in range(_ATTEMPTS):
        root = folder / f"killed-{attempt}"
        if _kill(_command(root, settings), root / "run" / "metrics.jsonl", lines):
            return root
    raise NotTried(f"the run ended before it could be killed, {_ATTEMPTS} times")


def _command(root: Path, settings: Sequence[str]) -> list[str]:
    root.mkdir(parents=True)
    (root / "proof.yaml").write_text("run:\n  seed: 3\n", encoding="utf-8")
    return [str(root / "proof.yaml"), *settings, f"run.folder={root}"]


def _start(arguments: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "recollect", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "RECOLLECT_PLAIN": "1"},
    )


def _to_the_end(arguments: Sequence[str]) -> None:
    process = _start(arguments)
    try:
        said, _ = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise PromiseBroken(f"`{shlex.join(arguments[:2])}` did not end") from None
    if process.returncode:
        raise PromiseBroken(f"`{shlex.join(arguments[:2])}` failed: {said[-300:].strip()}")


def _kill(arguments: Sequence[str], metrics: Path, lines: int) -> bool:
    """Start a run and kill it once it has written so many lines; False if it ended by itself."""
    process = _start(["train", *arguments])
    deadline = time.monotonic() + _SECONDS
    try:
        while process.poll() is None and time.monotonic() < deadline:
            if metrics.exists() and metrics.read_bytes().count(b"\n") >= lines:
                break
            time.sleep(0.01)
    finally:
        process.kill()
        said, _ = process.communicate()
    if process.returncode not in (-signal.SIGKILL, 0):
        raise PromiseBroken(f"`recollect train` failed: {said[-300:].strip()}")
    return process.returncode != 0

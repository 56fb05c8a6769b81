"""metrics.jsonl: one line per step and per evaluation, the numbers that every picture uses.

    {"kind": "step", "step": 12, "steps": 60, "time": 1.7e9, "metrics": {"train/loss": 0.1}}
    {"kind": "evaluation", "step": 20, "split": "test", "time": 1.7e9, "metrics": {...},
     "scores": [{"domain": "airline", "level": 1, "n": 50, "successes": 23, ...}]}

A line is written by one call, so that a kill leaves whole lines and at most one torn tail.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from recollect.canonical import Json, canonical_json, strict_json
from recollect.errors import BadFile
from recollect.telemetry.events import (
    CheckpointSaved,
    EvaluationFinished,
    Event,
    RunStarted,
    StepFinished,
)
from recollect.telemetry.finite import counted_metrics, finite, finite_metrics
from recollect.telemetry.scores import Score, score_metrics

FILE_NAME = "metrics.jsonl"

# What makes a line unique: kind, step, split.
Key = tuple[str, int, str]


class JsonlSink:
    """Appends to a file that it alone writes.

    Promises: a line is in the kernel's hands when `emit` returns (it survives the death of the
    process) and on the disk after CheckpointSaved and `close`; a failed write leaves the file
    as it was. RunStarted drops what lies after the step that the run goes on from, and an
    evaluation of that very step is not written twice, so a resumed run's file is the file of
    an undisturbed one, measured times aside.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._clock = clock
        self._held: set[Key] = set()
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        _cut_torn_tail(path, self._file)

    def emit(self, event: Event) -> None:
        """Write steps and evaluations, ignore the rest."""
        if isinstance(event, StepFinished):
            self._write(("step", event.step, ""), _step_line(event, self._clock()))
        elif isinstance(event, EvaluationFinished):
            key = ("evaluation", event.step, event.split)
            self._write(key, _evaluation_line(event, self._clock()))
        elif isinstance(event, RunStarted):
            truncate_after(self.path, event.done)
            self._held = _keys_of_step(self.path, event.done)
        elif isinstance(event, CheckpointSaved) and self._file is not None:
            os.fsync(self._file)

    def close(self) -> None:
        """Bring everything to the disk. Safe to call twice."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                os.fsync(file)
            finally:
                os.close(file)

    def _write(self, key: Key, line: dict[str, Json]) -> None:
        if key in self._held or self._file is None:
            return
        data = canonical_json(line).encode("utf-8", "replace") + b"\n"
        before = os.fstat(self._file).st_size
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            with suppress(OSError):  # the first failure is the one to report
                os.ftruncate(self._file, before)
            raise


def truncate_after(path: Path, step: int) -> int:
    """Drop the lines of later steps and a torn last line; return how many lines went.

    A missing file has nothing to drop. The cut is one call: a kill leaves all or nothing.
    """
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        keep, dropped = 0, 0
        for start, end, key in _lines(path, file):
            if key is not None and key[1] <= step:
                if dropped:
                    raise BadFile(path, f"step {key[1]} follows a later step at byte {start}")
                keep = end
            else:
                dropped += 1
        if dropped:
            file.truncate(keep)
            os.fsync(file.fileno())
    return dropped


def _keys_of_step(path: Path, step: int) -> set[Key]:
    with path.open("rb") as file:
        return {key for _, _, key in _lines(path, file) if key is not None and key[1] == step}


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, int, Key | None]]:
    """Walk through a file: where each line begins and ends, and its key (None: torn)."""
    end = 0
    for data in file:
        start, end = end, end + len(data)
        if not data.endswith(b"\n"):
            yield start, end, None
            return
        yield start, end, _key(path, data, start)


def _key(path: Path, data: bytes, start: int) -> Key:
    try:
        line = strict_json(data)
    except ValueError as error:
        raise BadFile(path, f"the line at byte {start} is not JSON: {error}") from None
    step = line.get("step") if isinstance(line, dict) else None
    if not isinstance(line, dict) or not isinstance(step, int):
        raise BadFile(path, f"the line at byte {start} has no step")
    return str(line.get("kind", "")), step, str(line.get("split", ""))


def _cut_torn_tail(path: Path, file: int) -> None:
    """Drop what follows the last line end, so that new lines stand on their own."""
    size = os.fstat(file).st_size
    with path.open("rb") as text:
        keep = size
        while keep:
            start = max(0, keep - 65536)
            text.seek(start)
            found = text.read(keep - start).rfind(b"\n")
            if found >= 0:
                keep = start + found + 1
                break
            keep = start
    if keep < size:
        os.ftruncate(file, keep)


def _step_line(event: StepFinished, now: float) -> dict[str, Json]:
    metrics: dict[str, Json] = {**counted_metrics(event.metrics)}
    return {
        "kind": "step",
        "step": event.step,
        "steps": event.steps,
        "time": finite(now),
        "metrics": metrics,
    }


def _evaluation_line(event: EvaluationFinished, now: float) -> dict[str, Json]:
    metrics: dict[str, Json] = {**finite_metrics(score_metrics(event.scores, event.guided))}
    return {
        "kind": "evaluation",
        "step": event.step,
        "split": event.split,
        "time": finite(now),
        "seconds": finite(event.seconds),
        "metrics": metrics,
        "scores": [_score(score) for score in event.scores],
    }


def _score(score: Score) -> dict[str, Json]:
    plain: dict[str, Json] = asdict(score)
    for name in ("floor", "reward", "reward_std", "tools"):
        plain[name] = finite(getattr(score, name))
    return plain

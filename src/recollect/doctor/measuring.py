"""A few steps of a run, measured on this machine, in a folder that is removed afterwards."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from recollect.config.schema.config import Config
from recollect.config.without_replay import without_replay
from recollect.store import open_reader
from recollect.store.address import is_address
from recollect.telemetry.events import (
    CheckpointSaved,
    EvaluationFinished,
    Event,
    PhaseStarted,
    StepFinished,
)
from recollect.train.folder import create_run
from recollect.train.loop import train
from recollect.train.memory import peak_memory
from recollect.train.session import open_session

_FEW_TASKS = 8  # to evaluate on, at least


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians over the measured steps, without replay; seconds, rows and bytes.

    `trained` is the mean number of rows that carried gradient. `evaluating` is scaled to the
    tasks that the configuration evaluates on, None where it evaluates on none. `peak_memory` is
    that of this process, None where the system does not count.
    """

    steps: int
    generated: float
    trained: float
    collect: float
    update: float
    rest: float
    evaluating: float | None
    checkpoint: float
    peak_memory: int | None
    row_bytes: float
    checkpoint_bytes: int

    @property
    def step(self) -> float:
        """Seconds of a whole step."""
        return self.collect + self.update + self.rest


def measure(config: Config, steps: int, clock: Callable[[], float] = time.perf_counter) -> Measured:
    """Train for one step to warm up and `steps` to measure, on the disk that the run would use.

    Leaves nothing behind. Neither the run's folder nor a store that it names is touched.
    """
    short = _short(config, steps + 1)
    heard = _Ear(clock)
    with tempfile.TemporaryDirectory(prefix=".recollect-plan-", dir=_place(config)) as place:
        folder = create_run(Path(place) / "run", short)
        with open_session(folder, {"plan": heard}) as session:
            train(session, clock)
        with open_reader(folder.store(short)) as reader:
            stats = reader.stats()
        saved = next(iter(folder.checkpoints.iterdir()))
        saved_bytes = sum(path.stat().st_size for path in saved.rglob("*") if path.is_file())
    lines = [event.metrics for event in heard.steps[1:]]
    collect, update, whole = (
        median(line[f"time/{phase}"] for line in lines) for phase in ("collect", "update", "step")
    )
    scale = config.eval.tasks / short.eval.tasks
    return Measured(
        steps=steps,
        generated=fmean(line["rollout/rows"] for line in lines),
        trained=fmean(line["train/rows"] for line in lines),
        collect=collect,
        update=update,
        rest=max(0.0, whole - collect - update),
        evaluating=None if heard.evaluating is None else scale * heard.evaluating,
        checkpoint=heard.checkpoint,
        peak_memory=peak_memory(),
        row_bytes=stats.file_bytes / max(1, stats.trajectories),
        checkpoint_bytes=saved_bytes,
    )


def _short(config: Config, steps: int) -> Config:
    """Make the same run with few steps, no replay, few tasks to evaluate on, nobody watching."""
    tasks = min(config.eval.tasks, max(_FEW_TASKS, config.rows_per_step // config.eval.rows))
    sections = {
        "run": config.run.model_copy(update={"steps": steps}),
        "train": config.train.model_copy(update={"warmup_steps": 0}),
        "eval": config.eval.model_copy(
            update={
                "tasks": tasks,
                "every": steps if config.eval.every else 0,
                "at_start": False,
            }
        ),
        "checkpoint": config.checkpoint.model_copy(update={"every": 0}),
        "store": config.store.model_copy(update={"path": None}),
        "telemetry": config.telemetry.model_copy(update={"sinks": ()}),
    }
    return without_replay(config).model_copy(update=sections)


def _place(config: Config) -> Path:
    """Find the folder nearest to the run's that exists: its disk is the one that counts."""
    path = config.store.path
    on_disk = path is not None and not is_address(path)
    folder = Path(str(path)).parent if on_disk else Path(config.run.folder)
    folder = folder.expanduser().absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder


class _Ear:
    """A sink that keeps the steps and how long evaluation and checkpoint took."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = 0.0
        self.steps: list[StepFinished] = []
        self.evaluating: float | None = None
        self.checkpoint = 0.0

    def emit(self, event: Event) -> None:
        """Take note of what is measured."""
        if isinstance(event, StepFinished):
            self.steps.append(event)
        elif isinstance(event, EvaluationFinished):
            self.evaluating = event.seconds
        elif isinstance(event, PhaseStarted):
            self._began = self._clock()
        elif isinstance(event, CheckpointSaved):
            self.checkpoint = self._clock() - self._began

    def close(self) -> None:
        """Nothing is held."""

"""Carrying out the runs of a comparison: some at a time, each in a process of its own.

A run is an ordinary run folder. Whatever interrupts a comparison, giving the same command again
goes on: finished runs are not repeated, unfinished ones resume from their newest checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeAlias

from recollect.canonical import strict_json
from recollect.compare.arms import differences
from recollect.compare.worker import DIVERGED, LOG
from recollect.config.schema.config import Config
from recollect.errors import BadComparison, ComparisonFailed, ComparisonStopped
from recollect.train.checkpoint import last_saved_step
from recollect.train.folder import RunFolder, anchored, create_run
from recollect.train.interrupts import Interrupts

_PAUSE = 0.2  # seconds between two looks at the running processes
_TAIL = 65_536  # bytes of metrics.jsonl that surely hold its last line


@dataclass(frozen=True, slots=True)
class Job:
    """One run: of which arm, on which seed, where, and with which settings."""

    arm: str
    seed: int
    path: Path
    config: Config

    @property
    def diverged(self) -> bool:
        """Tell whether training gave up on this run; it would do so again."""
        return (self.path / DIVERGED).is_file()

    @property
    def done(self) -> bool:
        """Tell whether there is nothing left to train."""
        return self.diverged or self.saved >= self.config.run.steps

    @property
    def saved(self) -> int:
        """The step of the newest checkpoint."""
        return last_saved_step(RunFolder(self.path).checkpoints)


class Worker(Protocol):
    """A process that trains the run in one folder.

    `poll` gives its exit code, None while it is at work. `stop` asks it to finish the step and
    save; `kill` ends it at once, which is as safe as a crash.
    """

    def poll(self) -> int | None:
        """Return the exit code, None before the end."""

    def stop(self) -> None:
        """Ask for an orderly end."""

    def kill(self) -> None:
        """End it, and return when it is gone."""


Launch: TypeAlias = Callable[[Path], Worker]


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a list of jobs has come. `running` are jobs with the step each is at."""

    done: int
    total: int
    steps_done: int
    steps: int
    running: tuple[tuple[Job, int], ...]
    ended: Job | None = None  # the run whose end is the reason for this call


Tell: TypeAlias = Callable[[Standing], None]


def prepare(jobs: Sequence[Job]) -> None:
    """Make the folders of runs that have none.

    Raises BadComparison, before anything is made, where a folder holds a run with other settings.
    """
    for job in jobs:
        if RunFolder(job.path).config.is_file():
            _refuse_other(job)
    for job in jobs:
        if not RunFolder(job.path).config.is_file():
            create_run(job.path, job.config)


def run_jobs(
    jobs: Sequence[Job],
    launch: Launch,
    *,
    parallel: int = 1,
    tell: Tell = lambda standing: None,
    pause: float = _PAUSE,
) -> None:
    """Train what is not done yet, in order, `parallel` runs at a time.

    Raises ComparisonFailed when a run fails (others save and stop) and ComparisonStopped when
    somebody interrupts. A run that diverges is done: that is a result, not a failure.
    """
    _refuse_shared_servers(jobs, parallel)
    prepare(jobs)
    crew = _Crew(jobs, launch, tell)
    try:
        with Interrupts() as interrupts:
            while crew.at_work:
                if interrupts.signal is not None or crew.failed:
                    crew.stop()
                crew.fill(parallel)
                if not crew.look() and crew.at_work:
                    time.sleep(pause)
    finally:
        crew.kill()
    if crew.failed:
        raise crew.failed[0]
    if interrupts.signal is not None:
        raise ComparisonStopped(interrupts.signal)


class _Crew:
    """The jobs that wait, and those at work."""

    def __init__(self, jobs: Sequence[Job], launch: Launch, tell: Tell) -> None:
        self._jobs = jobs
        self._waiting = [job for job in jobs if not job.done]
        self._done = [job for job in jobs if job not in self._waiting]
        self._running: list[tuple[Job, Worker]] = []
        self._launch = launch
        self._tell = tell
        self._stopped = False
        self.failed: list[ComparisonFailed] = []
        self._report(None)

    @property
    def at_work(self) -> bool:
        return bool(self._running or self._waiting)

    def fill(self, parallel: int) -> None:
        while self._waiting and len(self._running) < parallel:
            job = self._waiting.pop(0)
            self._running.append((job, self._launch(job.path)))

    def look(self) -> bool:
        """See who has ended; tell whether anybody has."""
        before = len(self._running)
        for job, worker in list(self._running):
            code = worker.poll()
            if code is None:
                continue
            self._running.remove((job, worker))
            if job.done:
                self._done.append(job)
                self._report(job)
            elif not self._stopped:
                self.failed.append(_failure(job, code))
        self._report(None)
        return len(self._running) < before

    def stop(self) -> None:
        """Start nothing more, and ask those at work, once, to save and leave."""
        if not self._stopped:
            self._stopped = True
            self._waiting.clear()
            for _, worker in self._running:
                worker.stop()

    def kill(self) -> None:
        for _, worker in self._running:
            worker.kill()

    def _report(self, ended: Job | None) -> None:
        running = tuple((job, last_step(job.path)) for job, _ in self._running)
        steps = sum(job.config.run.steps for job in self._done) + sum(s for _, s in running)
        standing = Standing(
            done=len(self._done),
            total=len(self._jobs),
            steps_done=steps,
            steps=sum(job.config.run.steps for job in self._jobs),
            running=running,
        )
        self._tell(replace(standing, ended=ended))


def last_step(path: Path) -> int:
    """Read the newest step from the end of a run's metrics; 0 before the first."""
    file = RunFolder(path).metrics
    if not file.is_file():
        return 0
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - _TAIL))
        lines = stream.read().split(b"\n")[:-1]
    try:
        line = strict_json(lines[-1])
    except (ValueError, IndexError):
        return 0
    step = line.get("step") if isinstance(line, dict) else None
    return step if isinstance(step, int) else 0


def _refuse_other(job: Job) -> None:
    known = RunFolder(job.path).load()
    changes = differences(known, anchored(job.config, known))
    if changes:
        shown = "; ".join(
            f"{change.key} was {change.before}, is {change.after}" for change in changes[:4]
        )
        what = f"{job.path} was run with other settings ({shown})"
        raise BadComparison(what, "Choose another folder with --out, or delete this one.")


def _refuse_shared_servers(jobs: Sequence[Job], parallel: int) -> None:
    """Two runs at one server would sample with each other's weights."""
    urls = [job.config.rollout.url for job in jobs if job.config.rollout.url is not None]
    if parallel > 1 and len(set(urls)) < len(urls):
        what = f"{parallel} runs at a time would give {urls[0]} their weights in turns"
        raise BadComparison(what, "Run one at a time: --jobs 1.")


def _failure(job: Job, code: int) -> ComparisonFailed:
    path = job.path / LOG
    log = path if path.is_file() else None
    if code < 0:
        return ComparisonFailed(job.path, f"it was killed by signal {-code}", log)
    words = _last_error(log)
    return ComparisonFailed(job.path, words or f"it ended with exit code {code}", log)


def _last_error(log: Path | None) -> str:
    """Find what a worker said of its failure; a traceback ends with it too."""
    if log is None:
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if line.strip()]
    return said[-1].removeprefix("error: ").rstrip(".")[:300] if said else ""

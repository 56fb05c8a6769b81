"""The process that trains one run of a comparison.

It opens the run where it stands, trains, and ends with 0 (finished), 128 + signal (stopped in
order, saved) or an error's exit code. It stops in order when whoever started it is gone, so that
it never outlives a comparison that was killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.canonical import canonical_json
from recollect.errors import RecollectError, TrainingDiverged

if TYPE_CHECKING:
    from recollect.config.schema.config import Config
    from recollect.telemetry.events import Sink

DIVERGED = "diverged.json"  # in a run's folder: why training gave up
LOG = "log.txt"  # what the run said


def work(path: Path) -> int:
    """Train the run in a folder to its end; return the exit code."""
    try:
        return _train(path)
    except TrainingDiverged as error:
        (path / DIVERGED).write_text(canonical_json({"what": error.what}), encoding="utf-8")
        _say(error)
        return error.exit_code
    except RecollectError as error:
        _say(error)
        return error.exit_code


def _train(path: Path) -> int:
    from recollect.telemetry import events
    from recollect.train.folder import RunFolder
    from recollect.train.interrupts import StoppedAtOnce
    from recollect.train.loop import train
    from recollect.train.session import open_session
    from recollect.train.summary import summarise

    folder = RunFolder(path)
    config = folder.load()
    with open_session(folder, _sinks(path, config)) as session:
        title = f"{config.model.name} on {config.environment.name}"
        settings = config.model_dump(mode="json")
        steps, done = config.run.steps, session.done
        session.sink.emit(events.RunStarted(session.run, path, steps, done, title, settings))
        try:
            outcome = train(session)
        except StoppedAtOnce as stop:
            return 128 + stop.signal
        if outcome.signal is not None:
            return 128 + outcome.signal
        session.sink.emit(events.RunFinished(outcome.step, tuple(summarise(folder))))
    return 0


def _sinks(path: Path, config: Config) -> dict[str, Sink]:
    from recollect.telemetry.progress import open_screen
    from recollect.telemetry.sinks.trackers import TrackerSettings, open_tracker

    place = TrackerSettings(path, config.telemetry.project)
    sinks: dict[str, Sink] = {"screen": open_screen(sys.stdout, progress=False)}
    for name in config.telemetry.sinks:
        sinks[name] = open_tracker(name, place)
    return sinks


def _say(error: RecollectError) -> None:
    if error.hint:
        sys.stdout.write(f"{error.hint}\n")
    sys.stdout.write(f"error: {error.what}\n")  # last: this is the line that is quoted
    sys.stdout.flush()


def main(folder: str, threads: int | None = None) -> None:
    """Be the process of a run: `multiprocessing` calls this. Leaves with the exit code."""
    path = Path(folder)
    if sys.platform != "win32":
        os.setpgid(0, 0)
    log = os.open(path / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    threading.Thread(target=_stop_with_the_parent, daemon=True).start()
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    sys.exit(work(path))


def _stop_with_the_parent() -> None:
    """Wait until whoever started us is gone, then stop in order."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

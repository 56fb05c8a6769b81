"""A run from where it stands to its end, with everything that is told about it."""

from __future__ import annotations

import shlex
import signal
from typing import TextIO

from recollect.telemetry import events
from recollect.telemetry.events import Sink
from recollect.telemetry.progress import open_screen
from recollect.telemetry.sinks.trackers import open_trackers
from recollect.train.checkpoint import last_saved_step
from recollect.train.folder import RunFolder
from recollect.train.interrupts import StoppedAtOnce
from recollect.train.loop import train
from recollect.train.session import Session
from recollect.train.summary import summarise


def run_to_end(session: Session) -> int | None:
    """Train until the last step; gives the signal that stopped it before, if any."""
    config, folder = session.config, session.folder
    title = f"{config.model.name} on {config.environment.name}"
    settings = config.model_dump(mode="json")
    steps = config.run.steps
    session.sink.emit(
        events.RunStarted(session.run, folder.path, steps, session.done, title, settings)
    )
    try:
        outcome = train(session)
    except StoppedAtOnce as stop:
        _say_stopped(session, "at once", stop.signal)
        return stop.signal
    if outcome.signal is not None:
        _say_stopped(session, f"after step {outcome.step}", outcome.signal)
        return outcome.signal
    session.sink.emit(events.RunFinished(outcome.step, tuple(summarise(folder))))
    return None


def open_sinks(
    folder: RunFolder,
    stream: TextIO,
    *,
    progress: bool = True,
    verbose: bool = False,
    log_interval: int | None = None,
) -> dict[str, Sink]:
    """Open the screen and the trackers that a run's configuration asks for."""
    settings = folder.load().telemetry
    screen = open_screen(
        stream,
        progress=progress and settings.progress,
        interval=log_interval or settings.log_interval,
        verbose=verbose or settings.verbose,
    )
    trackers = open_trackers(settings.sinks, folder.path, settings.project, settings.offline)
    return {"screen": screen, **trackers}


def _say_stopped(session: Session, when: str, number: int) -> None:
    """Tell what is saved, and how to go on from it."""
    saved = last_saved_step(session.folder.checkpoints)
    kept = f"step {saved} is saved" if saved else "no step is saved yet"
    reason = f"stopped {when} by {signal.Signals(number).name}; {kept}"
    hint = f"recollect resume {shlex.quote(str(session.folder.path))}"
    session.sink.emit(events.RunStopped(saved, reason, hint))

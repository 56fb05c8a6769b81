"""Experiment trackers: what we ask of one, and how a run's events become its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Protocol

from recollect.canonical import Json
from recollect.errors import MissingExtra, UnknownTracker
from recollect.redaction import redact_config
from recollect.telemetry.events import (
    EvaluationFinished,
    Event,
    RunFinished,
    RunStarted,
    RunStopped,
    StepFinished,
)
from recollect.telemetry.finite import counted_metrics, finite_metrics
from recollect.telemetry.scores import score_metrics
from recollect.telemetry.sinks.identity import tracker_id, tracker_name
from recollect.telemetry.sinks.queued import Queued


@dataclass(frozen=True, slots=True)
class TrackerSettings:
    """Where a tracker puts things, and under which id: one per run, whatever its folder is called.

    `offline` promises that it opens no connection.
    """

    folder: Path
    id: str
    project: str = "recollect"
    offline: bool = False

    @property
    def name(self) -> str:
        """What people read; several runs may have it."""
        return tracker_name(self.folder)


class Tracker(Protocol):
    """A thin cover over a tracker's own package.

    It is made in the caller's thread, where only the import may fail (MissingExtra); all else
    happens in the thread of `Queued` and may raise or hang.
    """

    def start(self, run: str, config: dict[str, Json]) -> None:
        """Open the run, or go on with it if the tracker knows it already."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log finite numbers of one step."""

    def finish(self) -> None:
        """Close the run. Called once, and only after `start`."""


class TrackerSink:
    """Turns events into a tracker's calls: no secrets, no NaN, nothing before the start."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._open = False

    def emit(self, event: Event) -> None:
        """Pass a run's start, numbers and end on."""
        if isinstance(event, RunStarted):
            config = redact_config(event.config)
            assert isinstance(config, dict)
            self._tracker.start(event.run, config)
            self._open = True
        elif not self._open:
            return
        elif isinstance(event, StepFinished):
            self._log(counted_metrics(event.metrics), event.step)
        elif isinstance(event, EvaluationFinished):
            self._log(finite_metrics(score_metrics(event.scores, event.guided)), event.step)
        elif isinstance(event, RunFinished | RunStopped):
            self.close()

    def close(self) -> None:
        """Close the tracker's run if it is open."""
        if self._open:
            self._open = False
            self._tracker.finish()

    def _log(self, metrics: Mapping[str, float | None], step: int) -> None:
        known = {name: value for name, value in metrics.items() if value is not None}
        self._tracker.log(known, step)


# Name in the configuration, which is also the extra's name: module and class.
TRACKERS = {
    "wandb": ("recollect.telemetry.sinks.wandb", "Wandb"),
    "swanlab": ("recollect.telemetry.sinks.swanlab", "Swanlab"),
    "tensorboard": ("recollect.telemetry.sinks.tensorboard", "Tensorboard"),
    "trackio": ("recollect.telemetry.sinks.trackio", "Trackio"),
}


def open_tracker(name: str, settings: TrackerSettings) -> Queued:
    """Make a tracker's sink; UnknownTracker or MissingExtra say now what would fail later."""
    if name not in TRACKERS:
        raise UnknownTracker(name, list(TRACKERS))
    module, kind = TRACKERS[name]
    tracker: Tracker = getattr(import_module(module), kind)(settings)
    return Queued(TrackerSink(tracker))


def open_trackers(
    names: Sequence[str], folder: Path, project: str, offline: bool
) -> dict[str, Queued]:
    """Make the sinks of the trackers that a run's configuration names."""
    if not names:
        return {}
    settings = TrackerSettings(folder, tracker_id(folder), project, offline)
    return {name: open_tracker(name, settings) for name in names}


def import_package(name: str, feature: str, extra: str) -> ModuleType:
    """Import an optional package; MissingExtra names the extra that brings it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(feature, extra) from error

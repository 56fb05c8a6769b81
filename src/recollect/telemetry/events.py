"""What a training loop reports, and what it may expect of whoever listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from recollect.telemetry.scores import Score

# A label and a text of the step line and the bar, such as ("BUF", "450") or ("EFF", "2.3x").
Field: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins, or goes on after `done` of its `steps` steps.

    `title` says in a few words what is trained on what. `config` is shown by trackers, after
    everything in it that looks like a secret was blotted out.
    """

    run: str
    folder: Path
    steps: int
    done: int = 0
    title: str = ""
    config: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A step enters one of `names.STEP_PHASES`, checkpoint or evaluate. Steps count from 1."""

    step: int
    phase: str


@dataclass(frozen=True, slots=True)
class EpisodeFinished:
    """Counts of the phase under way: motion inside a long step.

    `done` includes `failed`; `total` is 0 when nobody knows it. Emit as often as you like.
    """

    step: int
    done: int
    total: int = 0
    running: int = 0
    failed: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class MinibatchFinished:
    """The update phase has worked through `done` of `total` minibatches."""

    step: int
    done: int
    total: int = 0


@dataclass(frozen=True, slots=True)
class StepFinished:
    """A step is complete; `metrics` uses the names of `names.METRICS`, NaN allowed."""

    step: int
    steps: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class EvaluationFinished:
    """An evaluation after `step` steps (0: before the first), one score per domain and level.

    `guided` are the scores of attempts that had notes, where some did.
    """

    step: int
    scores: tuple[Score, ...]
    split: str = "test"
    seconds: float | None = None
    guided: tuple[Score, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A checkpoint of `step` is complete on disk."""

    step: int
    path: Path


@dataclass(frozen=True, slots=True)
class Warned:
    """Something a person should know; the run goes on."""

    text: str


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run reached its last step. `summary` holds lines for a person to read."""

    step: int
    summary: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunStopped:
    """The run ended early; `hint` says how to go on."""

    step: int
    reason: str
    hint: str = ""


Event: TypeAlias = (
    RunStarted
    | PhaseStarted
    | EpisodeFinished
    | MinibatchFinished
    | StepFinished
    | EvaluationFinished
    | CheckpointSaved
    | Warned
    | RunFinished
    | RunStopped
)


class Sink(Protocol):
    """Somebody who listens to a run.

    A sink ignores events it has no use for, keeps nothing that it is given beyond its own
    needs, and changes nothing. `emit` returns quickly: whatever may wait for a network stands
    behind `sinks.queued.Queued`. It may raise; `Fanout` then switches it off. After `close`
    it is given nothing more, and `close` may be called twice.
    """

    def emit(self, event: Event) -> None:
        """Take note of an event."""

    def close(self) -> None:
        """Write what is still to be written and let go of everything."""

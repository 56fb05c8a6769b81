"""A clock that stands still, a sink that remembers, and a run's worth of events."""

from __future__ import annotations

from pathlib import Path

from recollect.telemetry.events import (
    CheckpointSaved,
    EpisodeFinished,
    EvaluationFinished,
    Event,
    MinibatchFinished,
    PhaseStarted,
    RunFinished,
    RunStarted,
    RunStopped,
    StepFinished,
    Warned,
)
from recollect.telemetry.scores import Score

METRICS = {
    "train/loss": 0.0123,
    "reward/mean": 0.456,
    "policy/kl": 0.0012,
    "rollout/rows": 64.0,
    "rollout/rows_total": 768.0,
    "time/step": 1.23,
}


class Clock:
    """Time that moves only when told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Recorder:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.closed = 0

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        self.closed += 1

    @property
    def warnings(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Warned)]


def step(number: int, steps: int = 60, **changes: float) -> StepFinished:
    """A step; `train__loss=1` changes train/loss."""
    changed = {name.replace("__", "/"): value for name, value in changes.items()}
    return StepFinished(number, steps, {**METRICS, **changed})


def evaluation(number: int, solved: int = 20, split: str = "test") -> EvaluationFinished:
    """Two domains, two levels, 40 attempts each."""
    scores = tuple(
        Score(domain, level, 40, solved // level, floor=0.05, reward=0.4, reward_std=0.1)
        for domain in ("airline", "retail")
        for level in (1, 2)
    )
    return EvaluationFinished(number, scores, split, seconds=3.21)


def whole_run(folder: Path, steps: int = 3) -> list[Event]:
    """Every kind of event, in an order that a run emits them."""
    events: list[Event] = [RunStarted("demo-0", folder, steps, title="tiny"), evaluation(0, 4)]
    for number in range(1, steps + 1):
        events += [
            PhaseStarted(number, "collect"),
            EpisodeFinished(number, 32, 64, running=8, failed=1, tokens=500),
            PhaseStarted(number, "update"),
            MinibatchFinished(number, 1, 4),
            step(number, steps),
        ]
    return [
        *events,
        CheckpointSaved(steps, folder / "step-3"),
        evaluation(steps, 30),
        Warned("careful"),
        RunFinished(steps, ("It learned.", "  picture: curve.png")),
        RunStopped(steps, "Ctrl-C", "recollect resume"),
    ]

"""Where a run is right now: step, phase, counts inside the phase, and when it will end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from recollect.telemetry.events import (
    EpisodeFinished,
    Event,
    MinibatchFinished,
    PhaseStarted,
    RunStarted,
    StepFinished,
)
from recollect.telemetry.spelling import hours, seconds, whole

_WINDOW = 20  # steps that the estimate of the remaining time looks back on


class Motion:
    """Follows the events of a run. Reading it at any moment, from any thread, is harmless."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        now = clock()
        self.began = now
        self.step = 0
        self.steps = 0
        self.phase = ""
        self._phase_began = now
        self._step_ended = now
        self._counts: EpisodeFinished | MinibatchFinished | None = None
        self._durations: deque[float] = deque(maxlen=_WINDOW)

    def follow(self, event: Event) -> None:
        """Take an event into account."""
        now = self._clock()
        if isinstance(event, EpisodeFinished | MinibatchFinished):
            self._counts = event
        elif isinstance(event, PhaseStarted):
            self._counts, self._phase_began, self.phase = None, now, event.phase
        elif isinstance(event, StepFinished):
            self._durations.append(now - self._step_ended)
            self._counts, self._phase_began, self.phase = None, now, ""
            self.step, self.steps, self._step_ended = event.step, event.steps, now
        elif isinstance(event, RunStarted):
            self.step, self.steps = event.done, event.steps
            self.began = self._step_ended = self._phase_began = now

    @property
    def elapsed(self) -> float:
        """Seconds since this process took the run up."""
        return self._clock() - self.began

    @property
    def remaining(self) -> float | None:
        """Estimated seconds to the end, from the last steps; None before the first."""
        durations = list(self._durations)
        if not durations:
            return None
        whole_steps = sum(durations) / len(durations) * (self.steps - self.step)
        return max(0.0, whole_steps - (self._clock() - self._step_ended))

    @property
    def counted(self) -> tuple[int, int]:
        """Done and total inside the phase; total 0 when it is not known."""
        counts = self._counts
        return (counts.done, counts.total) if counts is not None else (0, 0)

    def phase_text(self) -> str:
        """Write `310/768 episodes | 64 running | 2 failed | 1,234 tok/s | 3.2 s`."""
        counts, took = self._counts, max(0.0, self._clock() - self._phase_began)
        parts = []
        if counts is not None:
            what = "episodes" if isinstance(counts, EpisodeFinished) else "minibatches"
            of = f"/{whole(counts.total)}" if counts.total else ""
            parts.append(f"{whole(counts.done)}{of} {what}")
        if isinstance(counts, EpisodeFinished):
            if counts.running:
                parts.append(f"{whole(counts.running)} running")
            if counts.failed:
                parts.append(f"{whole(counts.failed)} failed")
            if counts.tokens and took > 0:
                parts.append(f"{whole(counts.tokens / took)} tok/s")
        return " | ".join([*parts, seconds(took)])

    def line(self) -> str:
        """Write the whole as one line, for logs that were silent too long."""
        place = f"step {self.step + 1}/{self.steps}" if self.step < self.steps else "last step"
        return f"{place} | {self.phase or 'between phases'} | {self.phase_text()}"

    def time_text(self) -> str:
        """Write how long the run has taken and will take."""
        return f"{hours(self.elapsed)} | ETA {hours(self.remaining)}"

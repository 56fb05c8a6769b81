"""Deciding what is said: which events become lines, given the interval and verbosity."""

from __future__ import annotations

import math
from dataclasses import dataclass

from recollect.redaction import redact_text
from recollect.telemetry.events import (
    CheckpointSaved,
    EvaluationFinished,
    Event,
    RunFinished,
    RunStarted,
    RunStopped,
    StepFinished,
    Warned,
)
from recollect.telemetry.lines import (
    detail_lines,
    evaluation_line,
    evaluation_table,
    join_fields,
    step_line,
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line for a person, without escape codes; `style` is rich's, for those who use it."""

    text: str
    style: str = ""


class Narrator:
    """Turns events into lines.

    A step speaks if it is a multiple of `interval`, the last one, or in trouble (an update was
    skipped, a number is not finite). Evaluations, warnings and the end always speak; tables
    come at the end, or at every evaluation if `verbose`.
    """

    def __init__(self, interval: int = 1, verbose: bool = False) -> None:
        self._interval = max(1, interval)
        self._verbose = verbose
        self._first: EvaluationFinished | None = None
        self._last: EvaluationFinished | None = None

    def lines(self, event: Event) -> list[Line]:
        """Say what there is to say about an event; often nothing."""
        if isinstance(event, StepFinished):
            return self._step(event)
        if isinstance(event, EvaluationFinished):
            return self._evaluation(event)
        if isinstance(event, RunStarted):
            return [_started(event)]
        if isinstance(event, CheckpointSaved):
            text = join_fields([("checkpoint step", str(event.step)), ("", str(event.path))])
            return [Line(redact_text(text), "dim")] if self._verbose else []
        if isinstance(event, Warned):
            return [Line("[WARN] " + redact_text(event.text), "yellow")]
        if isinstance(event, RunFinished):
            return self._finished(event)
        if isinstance(event, RunStopped):
            text = f"[STOP] step {event.step} | {redact_text(event.reason)}"
            hint = [Line("  " + redact_text(event.hint))] if event.hint else []
            return [Line(text, "bold yellow"), *hint]
        return []

    def _step(self, event: StepFinished) -> list[Line]:
        trouble = event.metrics.get("train/skipped_steps", 0) != 0 or not all(
            math.isfinite(value) for value in event.metrics.values()
        )
        if not (trouble or event.step % self._interval == 0 or event.step == event.steps):
            return []
        details = detail_lines(event.metrics) if self._verbose else []
        return [
            Line(step_line(event), "red" if trouble else ""),
            *(Line(text, "dim") for text in details),
        ]

    def _evaluation(self, event: EvaluationFinished) -> list[Line]:
        self._first = self._first or event
        self._last = event
        table = evaluation_table(event) if self._verbose else []
        return [Line(evaluation_line(event), "bold"), *(Line(text) for text in table)]

    def _finished(self, event: RunFinished) -> list[Line]:
        found = []
        if self._last is not None:
            before = None if self._first is self._last else self._first
            since = "" if before is None else f" (before: step {before.step})"
            found.append(Line(f"Scores after step {self._last.step}{since}", "bold"))
            found += [Line(text) for text in evaluation_table(self._last, before)]
        return found + [Line(redact_text(text)) for text in event.summary]


def _started(event: RunStarted) -> Line:
    fields = [("run", event.run), ("", event.title), ("", f"{event.steps} steps")]
    if event.done:
        fields.append(("goes on after step", str(event.done)))
    fields.append(("", str(event.folder)))
    return Line(redact_text(join_fields([field for field in fields if any(field)])), "bold")

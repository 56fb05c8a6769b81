"""What a continual run shows to a person: banners, a bar, evaluations, tables, a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TextIO

from recollect.continual import formats
from recollect.continual.examination import Examination
from recollect.continual.intervals import measure_interval
from recollect.continual.journey import BASE, Journey
from recollect.continual.results import FILE
from recollect.continual.schedule import Stage
from recollect.continual.transfer import MEASURES
from recollect.models.loading import Policy
from recollect.redaction import redact_text
from recollect.telemetry.console import encodable
from recollect.telemetry.events import (
    CheckpointSaved,
    EvaluationFinished,
    Event,
    RunFinished,
    RunStarted,
    Sink,
    StepFinished,
    Warned,
)
from recollect.telemetry.lines import detail_lines

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Style:
    """How much is shown: a bar or lines, every how many steps, all metrics or the usual ones."""

    progress: bool = True
    interval: int = 10
    verbose: bool = False


class Output:
    """Whole lines and one line that changes, on a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.live = stream.isatty()
        self._open = 0  # length of the line that may still change

    def say(self, lines: Sequence[str]) -> None:
        """Write lines below whatever stands there."""
        self._clear()
        for line in lines:
            self._stream.write(encodable(line, self._stream.encoding) + "\n")
        self._stream.flush()

    def change(self, line: str) -> None:
        """Write the line that changes, in place of its last version; on a terminal only.

        It is cut to the terminal: of a line that wraps only the end could be taken back.
        """
        if self.live:
            self._clear()
            line = line[: max(20, get_terminal_size().columns - 1)]
            self._stream.write("\r" + encodable(line, self._stream.encoding))
            self._stream.flush()
            self._open = len(line)

    def _clear(self) -> None:
        if self._open:
            self._stream.write("\r" + " " * self._open + "\r")
            self._open = 0


class StageScreen:
    """Shows the training of one stage."""

    def __init__(self, output: Output, stage: Stage, style: Style, clock: Clock) -> None:
        self._output = output
        self._stage = stage
        self._style = style
        self._clock = clock
        self._began = clock()
        self._done = 0
        self._bar = ""

    def emit(self, event: Event) -> None:
        """Write what there is to say."""
        if isinstance(event, RunStarted):
            self._began, self._done = self._clock(), event.done
        elif isinstance(event, StepFinished):
            self._step(event)
        elif isinstance(event, EvaluationFinished):
            self._finish_bar(event.step == self._stage.steps)
            number, scores = self._stage.number, event.scores
            self._output.say([formats.evaluation_line(number, event.step, scores)])
        elif isinstance(event, Warned):
            self._output.say(["[WARN] " + redact_text(event.text)])
        elif isinstance(event, CheckpointSaved) and self._style.verbose:
            self._output.say([redact_text(f"checkpoint step {event.step} | {event.path}")])
        elif isinstance(event, RunFinished):
            self._finish_bar(True)

    def close(self) -> None:
        """Leave the stream open: it is the caller's."""

    def _step(self, event: StepFinished) -> None:
        due = event.step % self._style.interval == 0 or event.step == event.steps
        if self._style.progress:
            elapsed = self._clock() - self._began
            new = max(1, event.step - self._done)
            left = elapsed / new * (event.steps - event.step)
            name = f"Task {self._stage.number} ({', '.join(self._stage.domains)})"
            self._bar = formats.bar(name, event.step, event.steps, elapsed, left, event.metrics)
            if self._output.live:
                self._output.change(self._bar)
            elif due and event.step < event.steps:
                self._output.say([self._bar])
        elif due:
            number = self._stage.number
            line = formats.step_line(number, event.step, event.steps, event.metrics)
            self._output.say([line])
        if self._style.verbose and due:
            self._output.say(detail_lines(event.metrics))

    def _finish_bar(self, whole: bool) -> None:
        """Leave the bar of a stage that has reached its end for good."""
        if whole and self._bar:
            self._output.say([self._bar, ""])
            self._bar = ""


class Screen:
    """Shows a continual run on a stream, as seed 001 does."""

    def __init__(
        self,
        stream: TextIO,
        style: Style,
        *,
        trackers: Callable[[Stage], Mapping[str, Sink]] = lambda stage: {},
        clock: Clock = time.monotonic,
    ) -> None:
        self._output = Output(stream)
        self._style = style
        self._trackers = trackers
        self._clock = clock

    def started(self, journey: Journey, policy: Policy) -> None:
        """Say what is trained, how, and in which order."""
        config = journey.config
        say = self._output.say
        say([*formats.title("Initializing GRPO Trainer"), f"Loading model: {config.model.name}"])
        if config.algo.kl_coef:
            say(["Creating reference model for KL divergence..."])
        say([f"Model loaded on {policy.device}"])
        total = sum(p.numel() for p in policy.model.parameters())
        rank = config.model.lora.rank
        trained = f"adapters of rank {rank}" if rank else f"{total:,}"
        if config.continual.method in ("progressive", "dynamic_expansion"):
            trained = "a column of adapters for each domain"
        say(
            [
                "",
                f"Model: {config.model.name}",
                f"Total parameters: {total:,}",
                f"Trainable parameters: {trained}",
                f"CL Algorithm: {config.continual.method}",
                f"Task order: {' → '.join(journey.order)}",
                f"Folder: {journey.path}",
                "",
                *formats.title("Starting Training"),
            ]
        )

    def sinks(self, stage: Stage) -> Mapping[str, Sink]:
        """Show the training of a stage."""
        shown = StageScreen(self._output, stage, self._style, self._clock)
        return {"screen": shown, **self._trackers(stage)}

    def stage_started(self, stage: Stage, tasks: int) -> None:
        """Write a stage's banner."""
        where = f"{stage.domains[0]} domain"
        if stage.kind == "joint":
            lines, where = formats.title("Reference: JOINT"), "all domains"
        elif stage.kind == "single":
            lines = formats.title(f"Reference: {stage.domains[0].upper()} alone")
        else:
            lines = formats.domain_title(stage.number, stage.domains[0])
        self._output.say(["", *lines, "", f"Training on {tasks} tasks from {where}"])

    def examining(self, label: str, domain: str, done: int, total: int) -> None:
        """Show that an examination moves."""
        self._output.change(f"examining {label} on {domain}: {done}/{total} attempts")

    def examined(self, journey: Journey, label: str, found: Examination) -> None:
        """Write the table of a model, and what it means for transfer."""
        if not label.isdecimal():
            name = "Base Model" if label == BASE else f"Reference {label}"
            rows = [formats.domain_row(each, True) for each in found.domains]
            self._output.say(["", *formats.title(f"{name} Evaluation"), *rows])
            return
        number = int(label)
        table = formats.transfer_table(number, found, journey.order)
        metrics = formats.transfer_metrics(number, journey.matrix())
        self._output.say(["", *table, "", *metrics])

    def finished(self, journey: Journey) -> None:
        """Write the summary: final scores, all measures with intervals, the matrix, the files."""
        matrix, scores = journey.matrix(), journey.scores()
        lines = ["", *formats.title("Training Complete!"), "Final Summary:"]
        last = len(matrix.stages) - 1
        for number in range(len(journey.order)):
            final = formats.measure_text(matrix.score(last, number))
            lines.append(f"  task_{number}_final_{journey.config.continual.score}: {final}")
        for name, measure in MEASURES.items():
            value, interval = measure(matrix), measure_interval(journey.order, scores, measure)
            known = interval.low is not None and interval.high is not None
            spread = f"  [{interval.low:.4f}, {interval.high:.4f}]" if known else ""
            lines.append(f"  final_{name}: {formats.measure_text(value)}{spread}")
        self._output.say([*lines, "", *formats.matrix_lines(matrix), ""])
        pictures = sorted(journey.path.glob("*.png"))
        self._output.say([str(file) for file in (journey.path / FILE, *pictures)])

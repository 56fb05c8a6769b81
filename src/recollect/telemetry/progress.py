"""The live block at the bottom of a terminal, and the choice between it and plain lines.

    step 12/60 ━━━━━━━╺━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  20% 0:01:02 | ETA 0:04:10
    ⠹ collect  ━━━━━━━━━━╺━━━━━━━━  310/768 episodes | 64 running | 2 failed | 3.2 s
      loss 0.0123 | reward 0.456 | kl 0.0012 | rollouts 768 | BUF 450 | EFF 2.3x

The first row counts steps, the second follows the phase under way, the third holds the last
step's numbers and whatever pairs of label and text came with it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from recollect.telemetry.console import PlainConsole, encodable
from recollect.telemetry.events import (
    Event,
    Field,
    RunFinished,
    RunStarted,
    RunStopped,
    Sink,
    StepFinished,
)
from recollect.telemetry.lines import step_fields
from recollect.telemetry.motion import Motion
from recollect.telemetry.narrator import Line, Narrator
from recollect.telemetry.spelling import percent, whole

PLAIN_VARIABLE = "RECOLLECT_PLAIN"
_REFRESHES_PER_SECOND = 8.0
_LIVE_INTERVAL = 10  # the bar shows every step; lines above it are for scrolling back
_TERMINAL_PATIENCE = 5.0


def is_live(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a live block makes sense: a real terminal, and nobody asked for plain."""
    plain = environ.get(PLAIN_VARIABLE, "") not in ("", "0")
    return stream.isatty() and not plain and environ.get("TERM") != "dumb"


def open_screen(
    stream: TextIO | None = None,
    *,
    progress: bool = True,
    interval: int | None = None,
    verbose: bool = False,
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.monotonic,
) -> Sink:
    """Choose how a run shows itself on a stream, stdout by default.

    A terminal gets the live block, anything else (or `progress` False, or RECOLLECT_PLAIN=1)
    plain lines. `interval` is the number of steps between step lines: 1 in plain output and
    10 above the bar unless given.
    """
    place = sys.stdout if stream is None else stream
    if progress and is_live(place, environ):
        console = Console(file=place, highlight=False, markup=False, emoji=False)
        return LiveScreen(console, Narrator(interval or _LIVE_INTERVAL, verbose), clock)
    patience = _TERMINAL_PATIENCE if place.isatty() else 30.0
    return PlainConsole(place, Narrator(interval or 1, verbose), patience, clock)


class LiveScreen:
    """Keeps the live block moving and prints lines above it.

    A thread of rich's redraws it several times a second, so that it moves (spinner, seconds)
    even while the run is silent. What others print meanwhile appears above it.
    """

    def __init__(
        self,
        console: Console,
        narrator: Narrator,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._narrator = narrator
        self._motion = Motion(clock)
        self._fields: list[Field] = []
        self._spells_unicode = console.encoding.startswith("utf")
        self._spinner = Spinner("dots" if self._spells_unicode else "line", style="cyan")
        self._live: Live | None = None

    def emit(self, event: Event) -> None:
        """Update the block and print what there is to say above it."""
        self._motion.follow(event)
        if isinstance(event, StepFinished):
            self._fields = _bar_fields(event)
        if isinstance(event, RunFinished | RunStopped):
            self.close()
        for line in self._narrator.lines(event):
            self._print(line)
        if isinstance(event, RunStarted):
            self._start()

    def close(self) -> None:
        """Remove the block and give the terminal back."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _start(self) -> None:
        if self._live is None:
            self._live = Live(
                console=self._console,
                get_renderable=self.block,
                refresh_per_second=_REFRESHES_PER_SECOND,
                transient=True,
            )
            self._live.start(refresh=True)

    def _print(self, line: Line) -> None:
        text = encodable(line.text, self._console.encoding)
        self._console.print(Text(text, style=line.style), soft_wrap=True)

    def block(self) -> RenderableType:
        """Draw the block as it is now."""
        rows: list[RenderableType] = [self._step_row(), self._phase_row()]
        for text in _packed(self._fields, self._console.width - 2):
            rows.append(Text("  " + encodable(text, self._console.encoding), no_wrap=True))
        return Group(*rows)

    def _step_row(self) -> RenderableType:
        motion = self._motion
        share = motion.step / motion.steps if motion.steps else 0.0
        return _row(
            Text(f"step {motion.step}/{motion.steps}", style="bold"),
            ProgressBar(total=max(1, motion.steps), completed=motion.step, complete_style="green"),
            f"{percent(share)} | {motion.time_text()}",
        )

    def _phase_row(self) -> RenderableType:
        motion = self._motion
        self._spinner.update(text=Text(motion.phase or "...", style="cyan"))
        done, total = motion.counted
        bar = ProgressBar(total=total, completed=min(done, total), complete_style="cyan")
        return _row(self._spinner, bar if total else Text(""), motion.phase_text())


def _row(name: RenderableType, bar: RenderableType, text: str) -> RenderableType:
    """Lay a row out: a name of fixed width, a bar that takes what is left, a text."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=14, no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(no_wrap=True, justify="right")
    table.add_row(name, bar, Text(text, no_wrap=True, overflow="ellipsis"))
    return table


def _bar_fields(event: StepFinished) -> list[Field]:
    fields = step_fields(event.metrics)
    if "perf/tokens_per_s" in event.metrics:
        fields.append(("", f"{whole(event.metrics['perf/tokens_per_s'])} tok/s"))
    return fields


def _packed(fields: Sequence[Field], width: int) -> list[str]:
    """Spread fields over as few lines as the terminal's width allows."""
    lines: list[str] = []
    for label, text in fields:
        item = f"{label} {text}".strip()
        joined = f"{lines[-1]} | {item}" if lines else item
        if lines and cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(item)
    return lines

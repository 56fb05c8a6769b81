import io
import os
import pty
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from rich.console import Console

from recollect.telemetry.console import PlainConsole
from recollect.telemetry.events import (
    EpisodeFinished,
    MinibatchFinished,
    PhaseStarted,
    RunStarted,
    StepFinished,
    Warned,
)
from recollect.telemetry.narrator import Narrator
from recollect.telemetry.progress import LiveScreen, is_live, open_screen

from .samples import METRICS, Clock, whole_run

TERMINAL = {"TERM": "xterm-256color"}


class Terminal:
    """A pseudo-terminal: what is written to `stream` is collected by a thread."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        self.stream: TextIO = os.fdopen(slave, "w", encoding="utf-8")
        self.data = b""
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while not self.done.is_set():
            if select.select([self.master], [], [], 0.02)[0]:
                self.data += os.read(self.master, 65536)

    def wait_for(self, text: bytes, since: int = 0) -> bool:
        """Wait at most five seconds: no gap may be longer."""
        limit = time.monotonic() + 5
        while time.monotonic() < limit:
            if text in self.data[since:]:
                return True
            time.sleep(0.01)
        return False

    def close(self) -> None:
        self.done.set()
        self.thread.join()
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    for name in ("NO_COLOR", "FORCE_COLOR", "RECOLLECT_PLAIN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    opened = Terminal()
    yield opened
    opened.close()


def drawn(width: int = 80, **replay: float) -> list[str]:
    """The block in the middle of a run, as lines of text."""
    clock = Clock()
    place = Console(file=io.StringIO(), width=width, force_terminal=True)
    screen = LiveScreen(place, Narrator(), clock)
    screen.emit(RunStarted("demo-0", Path("r"), 60, 11))
    clock.now += 62
    metrics = {**METRICS, **{f"replay/{name}": value for name, value in replay.items()}}
    metrics["perf/tokens_per_s"] = 1234.0
    screen.emit(StepFinished(12, 60, metrics))
    screen.emit(PhaseStarted(13, "collect"))
    clock.now += 3
    screen.emit(EpisodeFinished(13, 310, 768, running=64, failed=2))
    screen.close()
    paper = Console(file=io.StringIO(), width=width, force_terminal=False, record=True)
    paper.print(screen.block())
    return paper.export_text().splitlines()


def test_the_block() -> None:
    step_row, phase_row, numbers, more = drawn(pool_rows=450.0, ratio=2.34)
    assert step_row.startswith("step 12/60 ")
    assert step_row.endswith("20.0% | 0:01:05 | ETA 0:49:33")
    assert "collect" in phase_row
    assert phase_row.endswith("310/768 episodes | 64 running | 2 failed | 3.0 s")
    assert numbers.rstrip() == (
        "  loss 0.0123 | reward 0.456 | kl 0.0012 | rollouts 768 | BUF 450 | EFF 2.3x"
    )
    assert more.rstrip() == "  1,234 tok/s"


def test_the_block_fits_any_terminal() -> None:
    for width in (20, 40, 60, 100, 200):
        lines = drawn(width, pool_rows=450.0, ratio=2.34)
        assert all(len(line.rstrip()) <= max(width, 24) for line in lines)
    assert len(drawn(200, pool_rows=450.0)) == 3


def test_the_block_before_anything_happened() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80)
    console.print(LiveScreen(console, Narrator(), lambda: 0.0).block())
    steps, phase = stream.getvalue().splitlines()
    assert steps.startswith("step 0/0 ")
    assert steps.endswith(" 0.0% | 0:00:00 | ETA -:--:--")
    assert phase.endswith(" 0.0 s")


def test_a_run_in_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    screen = open_screen(terminal.stream, interval=1)
    assert isinstance(screen, LiveScreen)
    for event in whole_run(tmp_path):
        screen.emit(event)
    screen.close()
    screen.close()
    assert terminal.wait_for(b"[STOP] step 3")
    text = terminal.data.decode()
    assert "\x1b[?25l" in text  # the cursor was hidden
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # and given back
    for piece in ("run demo-0", "step 2/3 | loss 0.0123", "[WARN] careful", "It learned."):
        assert piece in text


def test_the_block_moves_while_the_run_is_silent(terminal: Terminal, tmp_path: Path) -> None:
    screen = open_screen(terminal.stream)
    screen.emit(RunStarted("demo-0", tmp_path, 3))
    screen.emit(PhaseStarted(1, "collect"))
    try:
        for _ in range(4):  # redraw after redraw, with nothing emitted
            assert terminal.wait_for(b"collect", since=len(terminal.data))
    finally:
        screen.close()


def test_motion_inside_a_step_is_shown(terminal: Terminal, tmp_path: Path) -> None:
    screen = open_screen(terminal.stream)
    screen.emit(RunStarted("demo-0", tmp_path, 3))
    screen.emit(PhaseStarted(1, "collect"))
    try:
        for done in (3, 17):
            screen.emit(EpisodeFinished(1, done, 64, running=5, failed=1))
            assert terminal.wait_for(f"{done}/64 episodes | 5 running | 1 failed".encode())
        screen.emit(PhaseStarted(1, "update"))
        screen.emit(MinibatchFinished(1, 2, 4))
        assert terminal.wait_for(b"2/4 minibatches")
        screen.emit(Warned("above the block"))
        assert terminal.wait_for(b"[WARN] above the block")
    finally:
        screen.close()


def test_terminals_that_know_only_ascii(tmp_path: Path) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    console = Console(file=stream, width=80, force_terminal=True)
    screen = LiveScreen(console, Narrator(verbose=True))
    for event in whole_run(tmp_path):
        screen.emit(event)
    screen.close()
    stream.flush()
    assert b"reward 0.400?0.100" in raw.getvalue()


def test_who_gets_the_block(terminal: Terminal) -> None:
    assert is_live(terminal.stream, TERMINAL)
    assert not is_live(io.StringIO(), TERMINAL)
    assert not is_live(terminal.stream, {"TERM": "dumb"})
    assert not is_live(terminal.stream, {**TERMINAL, "RECOLLECT_PLAIN": "1"})
    assert is_live(terminal.stream, {**TERMINAL, "RECOLLECT_PLAIN": "0"})
    assert isinstance(open_screen(terminal.stream, progress=False), PlainConsole)
    plain = open_screen(terminal.stream, environ={**TERMINAL, "RECOLLECT_PLAIN": "1"})
    assert isinstance(plain, PlainConsole)


def test_plain_in_a_terminal_has_no_escape_codes_and_no_long_gaps(
    terminal: Terminal, tmp_path: Path
) -> None:
    clock = Clock()
    screen = open_screen(terminal.stream, progress=False, clock=clock)
    for event in whole_run(tmp_path):
        clock.now += 5
        screen.emit(event)
    assert terminal.wait_for(b"[STOP]")
    assert b"\x1b" not in terminal.data
    assert b"step 1/3 | collect | 32/64 episodes" in terminal.data


def test_a_pipe_gets_one_line_per_step(tmp_path: Path) -> None:
    stream = io.StringIO()
    screen = open_screen(stream)
    for event in whole_run(tmp_path, steps=25):
        screen.emit(event)
    screen.close()
    lines = stream.getvalue().splitlines()
    assert sum(line.startswith("step ") for line in lines) == 25
    assert "\x1b" not in stream.getvalue()

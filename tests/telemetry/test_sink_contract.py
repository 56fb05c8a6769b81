"""What every sink promises: it takes every event, and it may be closed twice."""

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from recollect.telemetry.console import PlainConsole
from recollect.telemetry.events import Sink
from recollect.telemetry.fanout import Fanout
from recollect.telemetry.narrator import Narrator
from recollect.telemetry.progress import LiveScreen
from recollect.telemetry.sinks.jsonl import JsonlSink
from recollect.telemetry.sinks.queued import Queued
from recollect.telemetry.sinks.trackers import TrackerSink

from .samples import Recorder, whole_run


def _tracker() -> TrackerSink:
    def nothing(*_: object) -> None:
        return None

    return TrackerSink(SimpleNamespace(start=nothing, log=nothing, finish=nothing))


SINKS: dict[str, Callable[[Path], Sink]] = {
    "jsonl": lambda folder: JsonlSink(folder / "m.jsonl"),
    "plain": lambda _: PlainConsole(io.StringIO(), Narrator(verbose=True)),
    "live": lambda _: LiveScreen(
        Console(file=io.StringIO(), force_terminal=True), Narrator(verbose=True)
    ),
    "queued": lambda _: Queued(Recorder()),
    "tracker": lambda _: _tracker(),
    "fanout": lambda _: Fanout({"one": Recorder(), "two": Recorder()}),
}


@pytest.mark.parametrize("make", SINKS.values(), ids=SINKS)
def test_the_contract(make: Callable[[Path], Sink], tmp_path: Path) -> None:
    sink = make(tmp_path)
    for event in whole_run(tmp_path):
        sink.emit(event)
    sink.close()
    sink.close()


@pytest.mark.parametrize("make", SINKS.values(), ids=SINKS)
def test_closing_before_anything_happened(make: Callable[[Path], Sink], tmp_path: Path) -> None:
    make(tmp_path).close()

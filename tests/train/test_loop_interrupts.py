"""The loop when somebody interrupts it: once, twice, at any phase."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from recollect.proof.traces import metrics_trace, trace
from recollect.telemetry.events import (
    Event,
    PhaseStarted,
)
from recollect.train.folder import RunFolder
from recollect.train.interrupts import StoppedAtOnce
from recollect.train.loop import Outcome, train
from recollect.train.session import open_session

from .small import Recorder, make_config, run_to_end

INTERRUPTED = ("run.steps=3", "checkpoint.every=2", "eval.every=2")


@pytest.fixture(scope="module")
def undisturbed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("undisturbed") / "r"
    run_to_end(folder, make_config(model, *INTERRUPTED))
    return trace(folder)


def interrupting(step: int, phase: str, number: int = signal.SIGINT, times: int = 1) -> Recorder:
    """A sink that sends signals to this process when a phase begins."""

    def send(event: Event) -> None:
        if isinstance(event, PhaseStarted) and (event.step, event.phase) == (step, phase):
            for _ in range(times):
                os.kill(os.getpid(), number)

    return Recorder(send)


@pytest.mark.parametrize(
    ("step", "phase", "stops_after"),
    [
        (2, "collect", 2),
        (2, "evaluate", 2),
        (2, "checkpoint", 2),
        (0, "evaluate", 0),
    ],
)
def test_once_finishes_the_step_and_saves(
    model: Path, tmp_path: Path, undisturbed: Any, step: int, phase: str, stops_after: int
) -> None:
    sink = interrupting(step, phase)
    assert run_to_end(tmp_path / "r", make_config(model, *INTERRUPTED), sink) == Outcome(
        stops_after, signal.SIGINT
    )
    with open_session(RunFolder(tmp_path / "r"), {}) as session:
        assert session.done == stops_after
        assert train(session) == Outcome(3, None)
    assert trace(tmp_path / "r") == undisturbed


def test_in_the_last_step_it_is_finished(model: Path, tmp_path: Path) -> None:
    sink = interrupting(3, "collect", signal.SIGTERM)
    assert run_to_end(tmp_path / "r", make_config(model), sink) == Outcome(3, None)


@pytest.mark.parametrize("phase", ["collect", "record", "checkpoint"])
def test_twice_stops_at_once_and_loses_nothing(
    model: Path, tmp_path: Path, undisturbed: Any, phase: str
) -> None:
    sink = interrupting(2, phase, times=2)
    with pytest.raises(StoppedAtOnce):
        run_to_end(tmp_path / "r", make_config(model, *INTERRUPTED), sink)
    assert sink.closed
    with open_session(RunFolder(tmp_path / "r"), {}) as session:
        assert session.done == 0
        train(session)
    assert trace(tmp_path / "r") == undisturbed


def test_a_finished_run_has_nothing_left_to_do(model: Path, tmp_path: Path) -> None:
    run_to_end(tmp_path / "r", make_config(model))
    before = (tmp_path / "r" / "metrics.jsonl").read_bytes()
    recorder = Recorder()
    with open_session(RunFolder(tmp_path / "r"), {"sink": recorder}) as session:
        assert train(session) == Outcome(3, None)
    assert (tmp_path / "r" / "metrics.jsonl").read_bytes() == before
    assert recorder.events == []


def test_evaluations_stand_before_the_checkpoint_that_makes_them_final(
    model: Path, tmp_path: Path
) -> None:
    """Stopped right after a checkpoint, the line of its evaluation is there, once."""
    run_to_end(tmp_path / "r", make_config(model, *INTERRUPTED), interrupting(2, "checkpoint"))
    expected = [("evaluation", 0), ("step", 1), ("step", 2), ("evaluation", 2)]
    lines = [(line["kind"], line["step"]) for line in metrics_trace(tmp_path / "r")]
    assert lines == expected
    with open_session(RunFolder(tmp_path / "r"), {}) as session:
        train(session)
    lines = [(line["kind"], line["step"]) for line in metrics_trace(tmp_path / "r")]
    assert lines == [*expected, ("step", 3), ("evaluation", 3)]

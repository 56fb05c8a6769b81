from __future__ import annotations

from pathlib import Path

import pytest

from recollect.telemetry.events import EvaluationFinished, StepFinished
from recollect.telemetry.scores import Score
from recollect.telemetry.sinks.jsonl import JsonlSink
from recollect.train.checkpoint import save_checkpoint
from recollect.train.folder import RunFolder, create_run
from recollect.train.summary import state_of, summarise

from .small import make_config


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create_run(tmp_path / "demo-1", make_config(tmp_path, "run.steps=2"))


def evaluate(sink: JsonlSink, step: int, successes: int) -> None:
    sink.emit(EvaluationFinished(step, (Score("d", 1, 10, successes, 0.1, 0.5, 0.1),), "dev"))


def finish(sink: JsonlSink, step: int, failed: float = 0.0) -> None:
    metrics = {
        "rollout/rows_total": 8.0 * step,
        "reward/mean": 0.25,
        "health/failed_episodes": failed,
    }
    sink.emit(StepFinished(step, 2, metrics))


def test_before_the_first_step(folder: RunFolder) -> None:
    state = state_of(folder)
    assert (state.name, state.step, state.saved, state.steps) == ("demo-1", 0, 0, 2)
    assert (state.reward, state.first_success, state.last_success) == (None, None, None)
    assert not state.finished


def test_a_run_is_finished_when_its_last_step_is_saved(folder: RunFolder) -> None:
    """Killed between its last line and its last checkpoint it has still something to do."""
    sink = JsonlSink(folder.metrics)
    evaluate(sink, 0, 2)
    for step in (1, 2):
        finish(sink, step)
    evaluate(sink, 2, 7)
    state = state_of(folder)
    assert (state.step, state.saved, state.finished) == (2, 0, False)
    assert (state.rollouts, state.reward) == (16, 0.25)
    assert (state.first_success, state.last_success) == (0.2, 0.7)
    save_checkpoint(folder.checkpoints, 2, {}, lambda path: None)
    assert state_of(folder).finished
    sink.close()


def test_what_is_said_at_the_end(folder: RunFolder) -> None:
    sink = JsonlSink(folder.metrics)
    evaluate(sink, 0, 2)
    finish(sink, 1)
    finish(sink, 2, failed=4)
    evaluate(sink, 2, 7)
    sink.close()
    save_checkpoint(folder.checkpoints, 2, {}, lambda path: None)
    text = "\n".join(summarise(folder))
    assert "Held-out success 20.0% -> 70.0% (+50.0 points) after 16 rollouts in 2 steps." in text
    assert "4 of 20 episodes failed and never trained" in text
    assert str(folder.path / "checkpoints" / "step_000002") in text
    assert f"recollect plot {folder.path}" in text


def test_without_evaluation_and_failures_less_is_said(folder: RunFolder) -> None:
    text = "\n".join(summarise(folder))
    assert "success" not in text
    assert "failed" not in text

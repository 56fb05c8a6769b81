"""Workers as real processes: stopped in order, and never left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from recollect.compare.jobs import last_step
from recollect.compare.process import ProcessWorker, process_launch
from recollect.compare.worker import LOG, work
from recollect.proof.traces import metrics_trace
from recollect.train.folder import RunFolder, create_run
from recollect.train.summary import state_of
from train.small import make_config, make_model

STEPS = 40
STARTER = """
import sys, time
from pathlib import Path
from recollect.compare.process import process_launch
worker = process_launch()(Path(sys.argv[1]))
time.sleep(600)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "small")


def make_run(path: Path, model: Path) -> Path:
    config = make_config(model, f"run.steps={STEPS}", "eval.every=20", "checkpoint.every=1000")
    create_run(path, config)
    return path


def wait_for_step(path: Path, step: int = 2, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while last_step(path) < step:
        assert time.monotonic() < end, (path / LOG).read_text()
        time.sleep(0.01)


def wait_for_end(worker: ProcessWorker, seconds: float = 120) -> int:
    end = time.monotonic() + seconds
    while (code := worker.poll()) is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    return code


def test_a_stopped_worker_saves_and_its_run_goes_on(tmp_path: Path, model: Path) -> None:
    path = make_run(tmp_path / "stopped", model)
    worker = process_launch()(path)
    assert isinstance(worker, ProcessWorker)
    wait_for_step(path)
    worker.stop()
    assert wait_for_end(worker) == 143
    state = state_of(RunFolder(path))
    assert 2 <= state.saved == state.step < STEPS
    assert work(path) == 0
    whole = make_run(tmp_path / "whole", model)
    assert work(whole) == 0
    assert metrics_trace(path) == metrics_trace(whole)


def test_a_worker_ends_with_whoever_started_it(tmp_path: Path, model: Path) -> None:
    path = make_run(tmp_path / "orphan", model)
    process = subprocess.Popen([sys.executable, "-c", STARTER, str(path)])
    wait_for_step(path)
    process.kill()
    assert process.wait(60) == -9
    end = time.monotonic() + 60
    while state_of(RunFolder(path)).saved < 2:  # its worker hears of it, saves and leaves
        assert time.monotonic() < end, (path / LOG).read_text()
        time.sleep(0.05)
    stood = last_step(path)
    assert stood < STEPS
    time.sleep(1)
    assert last_step(path) == stood


def test_a_worker_that_is_killed_is_gone(tmp_path: Path, model: Path) -> None:
    path = make_run(tmp_path / "killed", model)
    worker = process_launch()(path)
    wait_for_step(path)
    worker.kill()
    assert worker.poll() == -9
    assert state_of(RunFolder(path)).saved < STEPS


def test_a_worker_that_cannot_train_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert work(tmp_path) == 2
    assert "error: " in capsys.readouterr().out

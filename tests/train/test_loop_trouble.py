"""The loop when something goes wrong: failures, hangs, numbers that are none, broken sinks."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from recollect.errors import TooManyFailures, TrainingDiverged
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.telemetry.console import PlainConsole
from recollect.telemetry.events import (
    Event,
    StepFinished,
    Warned,
)
from recollect.telemetry.narrator import Narrator
from recollect.telemetry.reading import read_metrics
from recollect.train.folder import RunFolder
from recollect.train.guards import read_bad_batch
from recollect.train.loop import Outcome
from recollect.train.session import open_session
from recollect.train.summary import summarise
from recollect.types import RunId

from .small import WORLDS, Recorder, make_config, run_to_end


def test_no_signal_no_change(model: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    run_to_end(tmp_path / "r", make_config(model, world=f"{WORLDS}:Same"))
    before = load_file(model / "model.safetensors")
    after = load_file(tmp_path / "r" / "checkpoints" / "step_000003" / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
    with open_reader(tmp_path / "r" / "store.db") as store:
        cursor = store.cursor(RunId("r"))
    assert cursor is not None
    assert (cursor.step, cursor.policy_version) == (3, 0)
    for line in read_metrics(tmp_path / "r").steps:
        assert line.metrics["reward/dead_groups"] == 1
        assert line.metrics["train/rows"] == 0
        assert line.metrics["health/not_finite"] == 0
    # And it can be resumed, though the optimiser has nothing to restore.
    with open_session(RunFolder(tmp_path / "r"), {}) as session:
        assert session.done == 3


def test_failures_and_hangs_are_dropped_and_told(model: Path, tmp_path: Path) -> None:
    """30 % of the episodes fail or hang: the run finishes and says what it dropped (F14)."""
    screen, recorder = io.StringIO(), Recorder()
    config = make_config(
        model, "run.steps=6", "rollout.call_seconds=0.4", "rollout.max_failed_share=0.9",
        "eval.split=train", "eval.tasks=10", world=f"{WORLDS}:Flaky",
    )  # fmt: skip
    sinks = (recorder, PlainConsole(screen, Narrator()))
    assert run_to_end(tmp_path / "r", config, *sinks) == Outcome(6, None)
    lines = read_metrics(tmp_path / "r").steps
    failed = [int(line.metrics["rollout/failed"]) for line in lines]
    total = sum(failed)
    assert 0.15 < total / 48 < 0.45, failed
    assert lines[-1].metrics["health/failed_episodes"] == total
    assert lines[-1].metrics["rollout/rows_total"] == 48 - total
    with open_reader(tmp_path / "r" / "store.db") as store:
        told = store.events(RunId("r"))
        rows = store.count(Query(run=RunId("r")))
        assert list(store.verify()) == []
    assert [sum(e.step == step for e in told) for step in range(1, 7)] == failed
    assert {e.kind for e in told} == {"episode_failed"}
    assert rows == 48 - total
    reasons = {e.data["reason"] for e in told}
    assert any("no answer within" in str(reason) for reason in reasons), "some of them hang"
    assert any("went wrong" in str(reason) for reason in reasons)
    shown = screen.getvalue()
    assert "[WARN] Failed episodes never train: task" in shown
    assert f"failed {failed[0]}" in shown or not failed[0]
    assert "evaluation episodes failed and count as lost" in shown
    assert f"{total} of 48 episodes failed" in "\n".join(summarise(RunFolder(tmp_path / "r")))
    assert all(line.metrics["train/skipped_steps"] == 0 for line in lines)


def test_an_evaluation_that_the_clock_cut_off_says_so(model: Path, tmp_path: Path) -> None:
    """A slow machine would look like a bad policy."""
    recorder = Recorder()
    config = make_config(model, "run.steps=1", "rollout.call_seconds=1e-3",
                         "rollout.episode_seconds=1e-3", "eval.tasks=2")  # fmt: skip
    run_to_end(tmp_path / "r", config, recorder)
    told = [event.text for event in recorder.events if isinstance(event, Warned)]
    assert [text for text in told if text.startswith("2 of 2 evaluation episodes were cut off")]


def test_too_many_failures_stop_the_run_and_leave_the_reasons(model: Path, tmp_path: Path) -> None:
    config = make_config(model, "eval.every=0", world=f"{WORLDS}:Broken")
    with pytest.raises(TooManyFailures, match=r"8 of 8 episodes failed.*nobody is at the desk"):
        run_to_end(tmp_path / "r", config)
    with open_reader(tmp_path / "r" / "store.db") as store:
        assert len(store.events(RunId("r"), 1)) == 8


@pytest.mark.parametrize("kl_in", ["loss", "reward"])
def test_a_run_of_nothing_but_failures_can_be_allowed(
    model: Path, tmp_path: Path, kl_in: str
) -> None:
    config = make_config(
        model, "rollout.max_failed_share=1", "algo.kl_coef=0.1", f"algo.kl_in={kl_in}",
        world=f"{WORLDS}:Broken",
    )  # fmt: skip
    assert run_to_end(tmp_path / "r", config) == Outcome(3, None)
    last = read_metrics(tmp_path / "r").steps[-1].metrics
    assert math.isnan(last["reward/mean"])
    assert last["health/not_finite"] > 0
    assert last["health/failed_episodes"] == 24


def test_rewards_whose_differences_are_no_numbers_stop_the_run(model: Path, tmp_path: Path) -> None:
    recorder = Recorder()
    flags = ["algo.advantage=dr_grpo", "run.steps=9", "eval.every=0", "checkpoint.every=0"]
    config = make_config(model, *flags, world=f"{WORLDS}:Absurd")
    with pytest.raises(TrainingDiverged, match="3 updates in a row"):
        run_to_end(tmp_path / "r", config, recorder)
    steps = [e for e in recorder.events if isinstance(e, StepFinished)]
    assert steps
    for number, event in enumerate(steps, start=1):
        assert event.metrics["health/bad_steps"] == number
        assert event.metrics["train/skipped_steps"] == 1
        assert math.isnan(event.metrics["train/loss"])
    saved = sorted((tmp_path / "r" / "bad_batches").glob("*.frames"))
    assert len(saved) == 3
    assert all(read_bad_batch(path) for path in saved)
    with open_reader(tmp_path / "r" / "store.db") as store:
        cursor = store.cursor(RunId("r"))
    assert cursor is not None
    assert cursor.policy_version == 0


def test_a_sink_that_breaks_does_not_break_the_run(model: Path, tmp_path: Path) -> None:
    def fail(event: Event) -> None:
        raise RuntimeError("tracker down")

    other = Recorder()
    assert run_to_end(tmp_path / "r", make_config(model), Recorder(fail), other).step == 3
    assert any(isinstance(e, Warned) and "tracker down" in e.text for e in other.events)

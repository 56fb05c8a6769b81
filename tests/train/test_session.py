"""Opening a run: fresh, resumed, refused. Resumed runs are compared bit for bit."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
import torch

from recollect.errors import BadConfig, BadEnvironment, StoreLocked, UnknownEnvironment
from recollect.proof.traces import metrics_trace, trace
from recollect.store import open_reader, open_store
from recollect.telemetry.events import Event, StepFinished, Warned
from recollect.train.folder import RunFolder, create_run
from recollect.train.loop import train
from recollect.train.parts import policy_from
from recollect.train.session import open_session
from recollect.types import RunId

from .small import WORLDS, Recorder, make_config, open_run, run_to_end


def stop_after(step: int) -> Recorder:
    """A sink that interrupts the run after a step."""

    def send(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == step:
            os.kill(os.getpid(), signal.SIGINT)

    return Recorder(send)


def resume(folder: Path, *sinks: Recorder) -> None:
    with open_session(RunFolder(folder), {str(n): s for n, s in enumerate(sinks)}) as session:
        train(session)


VARIANTS = {
    "adapters that drop, and a reference": [
        "model.lora.rank=2", "model.lora.dropout=0.4", "algo.kl_coef=0.5",
    ],
    "kl in the loss": ["algo.kl_coef=0.5"],
    "kl in the reward": ["algo.kl_coef=0.5", "algo.kl_in=reward", "algo.kl_estimator=k1"],
    "much else": [
        "train.epochs=2", "train.minibatches=2", "train.weight_decay=0.1", "train.schedule=cosine",
        "train.warmup_steps=2", "rollout.temperature=0.8", "rollout.top_k=20",
        "algo.entropy_coef=0.01", "algo.advantage=rloo", "algo.loss=cispo",
    ],
}  # fmt: skip


@pytest.mark.parametrize("flags", VARIANTS.values(), ids=VARIANTS.keys())
def test_interrupted_and_resumed_is_as_if_never_interrupted(
    model: Path, tmp_path: Path, flags: list[str]
) -> None:
    config = make_config(model, "eval.every=0", "checkpoint.every=0", *flags)
    run_to_end(tmp_path / "whole" / "r", config)
    run_to_end(tmp_path / "cut" / "r", config, stop_after(1))
    resume(tmp_path / "cut" / "r")
    assert trace(tmp_path / "cut" / "r") == trace(tmp_path / "whole" / "r")


def test_failed_episodes_are_counted_through(model: Path, tmp_path: Path) -> None:
    """Totals since the run began do not forget, or count twice, what was before a resume."""
    flags = ["run.steps=4", "rollout.max_failed_share=1", "rollout.call_seconds=0.4"]
    config = make_config(model, *flags, "eval.every=0", world=f"{WORLDS}:Flaky")
    run_to_end(tmp_path / "whole" / "r", config)
    run_to_end(tmp_path / "cut" / "r", config, stop_after(2))
    resume(tmp_path / "cut" / "r")
    found = metrics_trace(tmp_path / "cut" / "r")
    assert found == metrics_trace(tmp_path / "whole" / "r")
    last = found[-1]["metrics"]
    assert last["health/failed_episodes"] == sum(
        line["metrics"]["rollout/failed"] for line in found
    )
    assert last["health/failed_episodes"] > 0


def test_refused_updates_are_counted_through(model: Path, tmp_path: Path) -> None:
    """Two bad updates before a resume and one after it are three in a row."""
    from recollect.errors import TrainingDiverged

    flags = ["algo.advantage=dr_grpo", "run.steps=9", "eval.every=0", "checkpoint.every=0"]
    config = make_config(model, *flags, world=f"{WORLDS}:Absurd")
    run_to_end(tmp_path / "r", config, stop_after(2))
    with (
        open_session(RunFolder(tmp_path / "r"), {}) as session,
        pytest.raises(TrainingDiverged, match="3 updates in a row up to step 3"),
    ):
        train(session)


def test_new_adapters_follow_the_seed(model: Path) -> None:
    """Or a run that is killed before its first checkpoint would begin another one."""
    found = []
    for seed in (1, 1, 2):
        torch.rand(3)
        config = make_config(model, "model.lora.rank=2", f"run.seed={seed}")
        policy = policy_from(config, None)
        found.append(torch.cat([p.detach().flatten() for _, p in policy.trainable()]))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_weights_do_not_lie_where_the_file_has_them(model: Path) -> None:
    for rank in (0, 2):
        policy = policy_from(make_config(model, f"model.lora.rank={rank}"), None)
        assert all(p.data_ptr() % 64 == 0 for p in policy.model.parameters())


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("rank: 0", "rank: 2", r"step_000002 has no adapters: model\.lora\.rank was changed"),
        ("rank: 2", "rank: 0", r"step_000002 has adapters of rank 2: model\.lora\.rank was"),
        ("rank: 2", "rank: 4", r"step_000002 has adapters of rank 2: model\.lora\.rank was"),
        ("alpha: 16.0", "alpha: 8.0", r"has adapters with alpha 16: model\.lora\.alpha was"),
    ],
)
def test_adapters_are_not_changed_on_the_way(
    model: Path, tmp_path: Path, before: str, after: str, told: str
) -> None:
    """Otherwise the checkpoint's own would go on training, whatever is asked for."""
    rank = 0 if before == "rank: 0" else 2
    flags = (f"model.lora.rank={rank}", "run.steps=2", "eval.every=0")
    run_to_end(tmp_path / "r", make_config(model, *flags))
    file = tmp_path / "r" / "config.yaml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after).replace("steps: 2", "steps: 3"))
    with pytest.raises(BadConfig, match=told) as error:
        resume(tmp_path / "r")
    assert "Change it back in the run's config.yaml" in error.value.hint
    file.write_text(text.replace("steps: 2", "steps: 3"))
    resume(tmp_path / "r")


def test_a_run_that_began_with_adapters_goes_on_with_them(model: Path, tmp_path: Path) -> None:
    """Their rank is theirs, whatever `model.lora` says; nor need the folder be there any more."""
    run_to_end(tmp_path / "first", make_config(model, "model.lora.rank=2", "eval.every=0"))
    adapters = tmp_path / "adapters"
    (tmp_path / "first" / "checkpoints" / "step_000003").rename(adapters)
    config = make_config(adapters, "run.steps=2", "checkpoint.every=1", "eval.every=0")
    run_to_end(tmp_path / "r", config, stop_after(1))
    adapters.rename(tmp_path / "elsewhere")
    resume(tmp_path / "r")


def test_a_damaged_checkpoint_costs_its_steps_and_nothing_else(model: Path, tmp_path: Path) -> None:
    config = make_config(
        model, "run.steps=4", "checkpoint.every=1", "checkpoint.keep=3", "eval.every=0"
    )
    run_to_end(tmp_path / "whole" / "r", config)
    run_to_end(tmp_path / "cut" / "r", config, stop_after(3))
    newest = tmp_path / "cut" / "r" / "checkpoints" / "step_000003" / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-4])
    recorder = Recorder()
    resume(tmp_path / "cut" / "r", recorder)
    told = [event.text for event in recorder.events if isinstance(event, Warned)]
    assert len(told) == 1
    assert "step_000003" in told[0]
    assert told[0].endswith("The run goes on from step 2.")
    assert [e.step for e in recorder.events if isinstance(e, StepFinished)] == [3, 4]
    assert trace(tmp_path / "cut" / "r") == trace(tmp_path / "whole" / "r")


def test_without_any_whole_checkpoint_the_run_begins_anew_and_says_so(
    model: Path, tmp_path: Path
) -> None:
    run_to_end(tmp_path / "r", make_config(model, "run.steps=1", "eval.every=0"))
    (tmp_path / "r" / "checkpoints" / "step_000001" / "config.json").unlink()
    recorder = Recorder()
    resume(tmp_path / "r", recorder)
    told = [event.text for event in recorder.events if isinstance(event, Warned)]
    assert [text.endswith("The run begins anew.") for text in told] == [True]
    assert [e.step for e in recorder.events if isinstance(e, StepFinished)] == [1]


def test_what_a_killed_step_left_behind_is_set_aside(model: Path, tmp_path: Path) -> None:
    """A step that was committed but not saved is done again; its first rows are fenced."""
    config = make_config(model, "run.steps=3", "checkpoint.every=2", "eval.every=0")

    def fail(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_to_end(tmp_path / "r", config, Recorder(fail))
    resume(tmp_path / "r")
    with open_reader(tmp_path / "r" / "store.db") as store:
        assert store.stats().fenced == 8
        assert list(store.verify()) == []
        cursor = store.cursor(RunId("r"))
    assert cursor is not None
    assert cursor.step == 3
    run_to_end(tmp_path / "whole" / "r", config)
    assert trace(tmp_path / "r") == trace(tmp_path / "whole" / "r")


def test_a_killed_save_leaves_nothing_lying_about(model: Path, tmp_path: Path) -> None:
    """Not even where the run was finished and has nothing to save any more."""
    run_to_end(tmp_path / "r", make_config(model, "eval.every=0"))
    for name in (".draft_step_000003", ".draft_old_step_000001"):
        (tmp_path / "r" / "checkpoints" / name).mkdir()
    resume(tmp_path / "r")
    names = sorted(path.name for path in (tmp_path / "r" / "checkpoints").iterdir())
    assert names == ["step_000002", "step_000003"]


def test_a_run_that_is_under_way_is_left_alone(model: Path, tmp_path: Path) -> None:
    with open_run(tmp_path / "r", make_config(model)) as session:
        train(session)
        before = (tmp_path / "r" / "metrics.jsonl").read_bytes()
        sink = Recorder()
        with pytest.raises(StoreLocked):
            open_session(RunFolder(tmp_path / "r"), {"sink": sink})
        assert sink.closed
        assert (tmp_path / "r" / "metrics.jsonl").read_bytes() == before


def test_what_cannot_be_opened_is_closed_again(model: Path, tmp_path: Path) -> None:
    wrong = {
        "a": (make_config(model, world="no_such_world"), UnknownEnvironment),
        "b": (make_config(model, "environment.levels=[9]"), BadEnvironment),
        "c": (make_config(model, "eval.split=train", "environment.levels=[9]"), BadEnvironment),
    }
    for name, (config, error) in wrong.items():
        folder = create_run(tmp_path / name, config)
        sink = Recorder()
        with pytest.raises(error):
            open_session(folder, {"sink": sink})
        assert sink.closed
        open_store(folder.store(config)).close()  # nobody holds it any more


def test_settings_may_be_changed_before_a_resume(model: Path, tmp_path: Path) -> None:
    """TrainingDiverged says so itself: lower the learning rate, then resume."""
    config = make_config(model, "run.steps=2", "eval.every=0")
    run_to_end(tmp_path / "r", config)
    path = tmp_path / "r" / "config.yaml"
    text = path.read_text().replace("steps: 2", "steps: 3")
    path.write_text(text.replace("learning_rate: 0.01", "learning_rate: 0.001"))
    resume(tmp_path / "r")
    last = metrics_trace(tmp_path / "r")[-1]
    assert last["step"] == 3
    assert last["metrics"]["train/learning_rate"] == 0.001
    with open_reader(tmp_path / "r" / "store.db") as store:
        (run,) = store.runs().values()
        (event,) = store.events(RunId("r"))
    assert run.config["train"]["learning_rate"] == 0.01
    assert event.kind == "config_changed"
    assert event.data["now"]["train"]["learning_rate"] == 0.001


def test_runs_of_different_names_share_a_store(model: Path, tmp_path: Path) -> None:
    config = make_config(model, f"store.path={tmp_path / 'pool.db'}", "eval.every=0")
    run_to_end(tmp_path / "one", config)
    run_to_end(tmp_path / "two", config)
    resume(tmp_path / "one")
    with open_reader(tmp_path / "pool.db") as store:
        assert {run.id for run in store.runs().values()} == {"one", "two"}
        assert store.stats().fenced == 0
        assert store.stats().trajectories == 48
    assert not (tmp_path / "one" / "store.db").exists()


def test_a_session_leaves_no_thread_behind(model: Path, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    run_to_end(tmp_path / "r", make_config(model, "run.steps=1"))
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive(), thread


def test_a_torn_line_of_metrics_is_cut(model: Path, tmp_path: Path) -> None:
    run_to_end(tmp_path / "r", make_config(model, "eval.every=0"), stop_after(2))
    with (tmp_path / "r" / "metrics.jsonl").open("a") as file:
        file.write('{"kind":"step","st')
    resume(tmp_path / "r")
    assert [line["step"] for line in metrics_trace(tmp_path / "r")] == [1, 2, 3]

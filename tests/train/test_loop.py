from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path

import pytest

from recollect.proof.traces import trace
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.telemetry.events import (
    CheckpointSaved,
    EpisodeFinished,
    EvaluationFinished,
    Event,
    MinibatchFinished,
    PhaseStarted,
    StepFinished,
)
from recollect.telemetry.reading import read_metrics
from recollect.train.loop import Outcome, train
from recollect.types import RunId
from telemetry.naming import undocumented

from .processes import start
from .small import Recorder, make_config, open_run, run_to_end

STEP = ["plan", "collect", "draw", "commit", "score", "update", "record"]


def phases(recorder: Recorder) -> list[tuple[int, str]]:
    return [(e.step, e.phase) for e in recorder.events if isinstance(e, PhaseStarted)]


def test_the_order_of_things(model: Path, tmp_path: Path) -> None:
    recorder = Recorder()
    flags = ["run.steps=3", "eval.every=2", "checkpoint.every=2", "train.minibatches=2"]
    assert run_to_end(tmp_path / "r", make_config(model, *flags), recorder) == Outcome(3, None)
    one, two, three = ([(n, phase) for phase in STEP] for n in (1, 2, 3))
    between = [(2, "evaluate"), (2, "checkpoint")]
    assert phases(recorder) == [
        (0, "evaluate"), *one, *two, *between, *three, (3, "evaluate"), (3, "checkpoint")
    ]  # fmt: skip
    finished = [e.step for e in recorder.events if isinstance(e, StepFinished)]
    assert finished == [1, 2, 3]
    # Motion inside the long phases, to the last episode and minibatch.
    moves = [e for e in recorder.events if isinstance(e, EpisodeFinished) and e.step == 1]
    assert [e.done for e in moves] == list(range(1, 9))
    assert moves[-1].running == 0
    assert [e.done for e in recorder.events if isinstance(e, MinibatchFinished)] == [1, 2] * 3
    assert recorder.closed


def test_what_is_in_the_store_afterwards(model: Path, tmp_path: Path) -> None:
    config = make_config(model, "run.steps=3")
    run_to_end(tmp_path / "small-1", config)
    run = RunId("small-1")
    with open_reader(tmp_path / "small-1" / "store.db") as store:
        assert list(store.verify()) == []
        (known,) = store.runs().values()
        assert known.id == run
        assert known.config["rollout"] == config.model_dump(mode="json")["rollout"]
        for step in (1, 2, 3):
            groups = store.groups(run, step)
            assert len({group.task for group in groups}) == 2
            assert {group.policy_version for group in groups} == {step - 1}
            rows = store.rows(Query(run=run, min_step=step, max_step=step)).rows
            assert Counter(row.group for row in rows) == {group.id: 4 for group in groups}
            assert {row.policy_version for row in rows} == {step - 1}
        cursor = store.cursor(run)
        assert cursor is not None
        assert (cursor.step, cursor.policy_version) == (3, 3)
        seen = {group.task for step in (1, 2, 3) for group in store.groups(run, step)}
        states = store.task_states(run)
        assert {state.task for state in states} == seen
        for state in states:
            here = store.rows(Query(run=run, task=state.task, min_step=state.step)).rows
            assert (state.successes, state.rows) == (sum(r.success for r in here), len(here))
        assert store.events(run) == []


def _count(path: str, step: int) -> None:
    """Leave with the number of a step's rows that another process can see, and 100 if recorded."""
    with open_reader(path) as store:
        (run,) = store.runs().values()
        cursor = store.cursor(run.id)
        seen = store.count(Query(run=run.id, min_step=step, max_step=step))
        os._exit(seen + 100 * (cursor is not None and cursor.step >= step))


def test_rows_are_durable_before_anything_trains_on_them(model: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int | None]] = []

    def look(event: Event) -> None:
        if isinstance(event, PhaseStarted) and event.step == 2 and event.phase != "plan":
            child = start(_count, str(tmp_path / "r" / "store.db"), 2)
            child.join(30)
            seen.append((event.phase, child.exitcode))

    config = make_config(model, "run.steps=2", "eval.every=0", "checkpoint.every=0")
    run_to_end(tmp_path / "r", config, Recorder(look))
    assert seen == [
        ("collect", 0),
        ("draw", 0),
        ("commit", 0),
        ("score", 8),
        ("update", 8),
        ("record", 8),
        ("checkpoint", 108),
    ]


def test_metrics_are_documented_numbers(model: Path, tmp_path: Path) -> None:
    run_to_end(tmp_path / "r", make_config(model))
    metrics = read_metrics(tmp_path / "r")
    assert [line.step for line in metrics.steps] == [1, 2, 3]
    assert [line.step for line in metrics.evaluations] == [0, 2, 3]
    for line in (*metrics.steps, *metrics.evaluations):
        assert undocumented(line.metrics) == []
        assert all(math.isfinite(value) for value in line.metrics.values())
    last = metrics.steps[-1].metrics
    assert last["rollout/rows_total"] == 24
    assert last["policy/logprob_diff"] < 1e-5
    assert last["reward/mean/letters"] == last["reward/mean"]
    assert {score.level for score in metrics.evaluations[0].scores} == {1, 2}


def test_no_evaluation_where_none_is_wanted(model: Path, tmp_path: Path) -> None:
    recorder = Recorder()
    config = make_config(model, "eval.every=0", "eval.split=nowhere")
    run_to_end(tmp_path / "a", config, recorder)
    assert not any(isinstance(e, EvaluationFinished) for e in recorder.events)
    recorder = Recorder()
    run_to_end(tmp_path / "b", make_config(model, "eval.at_start=false", "eval.every=9"), recorder)
    assert [e.step for e in recorder.events if isinstance(e, EvaluationFinished)] == [3]


def test_checkpoints_when_due_and_at_the_end(model: Path, tmp_path: Path) -> None:
    recorder = Recorder()
    config = make_config(model, "run.steps=5", "checkpoint.every=2", "eval.every=0")
    run_to_end(tmp_path / "r", config, recorder)
    assert [e.step for e in recorder.events if isinstance(e, CheckpointSaved)] == [2, 4, 5]
    kept = sorted(path.name for path in (tmp_path / "r" / "checkpoints").iterdir())
    assert kept == ["step_000004", "step_000005"]
    recorder = Recorder()
    run_to_end(tmp_path / "s", make_config(model, "checkpoint.every=0"), recorder)
    assert [e.step for e in recorder.events if isinstance(e, CheckpointSaved)] == [3]


@pytest.mark.parametrize("rank", [0, 2])
def test_checkpoints_are_ordinary_model_folders(model: Path, tmp_path: Path, rank: int) -> None:
    import torch
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with open_run(tmp_path / "r", make_config(model, f"model.lora.rank={rank}")) as session:
        train(session)
        ours = session.learner.policy
    saved = tmp_path / "r" / "checkpoints" / "step_000003"
    loader = AutoPeftModelForCausalLM if rank else AutoModelForCausalLM
    loaded = loader.from_pretrained(saved)
    ids = torch.tensor([[7, 8, 9, 10]])
    with torch.no_grad():
        mine, theirs = ours.model(input_ids=ids).logits, loaded(input_ids=ids).logits
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
    tokenizer = AutoTokenizer.from_pretrained(saved)
    assert tokenizer.chat_template == ours.chat.tokenizer.chat_template
    assert not list(saved.glob("*.bin")), "no pickle"


# -- determinism --------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_run_and_another_seed_another(
    model: Path, tmp_path: Path
) -> None:
    found = {}
    for name, seed in (("a", 4), ("b", 4), ("c", 5)):
        run_to_end(tmp_path / name / "run", make_config(model, f"run.seed={seed}"))
        found[name] = trace(tmp_path / name / "run")
    assert found["a"] == found["b"]
    tasks = {name: [[g.task for g in step] for step in t["store"]["groups"]] for name, t in
             found.items()}  # fmt: skip
    assert tasks["a"] != tasks["c"]
    assert (
        found["a"]["checkpoint"]["model.safetensors"]
        != (found["c"]["checkpoint"]["model.safetensors"])
    )


def test_a_run_learns(model: Path, tmp_path: Path) -> None:
    config = make_config(
        model, "run.steps=20", "rollout.tasks_per_step=4", "rollout.rows_per_task=8",
        "rollout.batch_rows=32", "train.pack_tokens=2000", "train.learning_rate=0.02",
        "eval.every=0", "checkpoint.every=0",
    )  # fmt: skip
    run_to_end(tmp_path / "r", config)
    rewards = [line.metrics["reward/mean"] for line in read_metrics(tmp_path / "r").steps]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.2

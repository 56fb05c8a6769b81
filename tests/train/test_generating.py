"""Runs whose rows are sampled beside the trainer: the whole loop, against a server's calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import BadConfig, GeneratorLost
from recollect.models.loading import Policy
from recollect.rollout.sampler import Sampler
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.telemetry.events import Event, StepFinished
from recollect.train.folder import RunFolder
from recollect.train.generating import make_sampler
from recollect.train.loop import train
from recollect.train.session import open_session
from rollout.speaking import SmallServer, serving

from .learning import adapted
from .small import Recorder, load_small, make_config, run_to_end

SERVED = "rollout.engine=vllm-server"
PLAIN = "replay.modes=[]"


def server_of(model: Path) -> SmallServer:
    return SmallServer(str(model), load_small(model).chat.stop_ids)


def figures(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [line for line in found if "train/loss" in json.dumps(line)]


def metrics_of(sink: Recorder) -> list[dict[str, float]]:
    return [dict(event.metrics) for event in sink.events if isinstance(event, StepFinished)]


def train_on(model: Path, folder: Path, url: str, *flags: str) -> list[dict[str, float]]:
    sink = Recorder()
    config = make_config(model, SERVED, f"rollout.url={url}", PLAIN, *flags)
    run_to_end(folder, config, sink)
    return metrics_of(sink)


def test_a_run_samples_with_the_newest_weights(model: Path, tmp_path: Path) -> None:
    server = server_of(model)
    with serving(server) as url:
        steps = train_on(model, tmp_path / "run", url)
    assert len(steps) == 3
    for step in steps:
        # The same model behind the calls: old weights would show after steps of this size.
        assert step["rollout/mismatch_mean"] == pytest.approx(1.0, abs=1e-4)
        assert step["rollout/mismatch_p99"] == pytest.approx(1.0, abs=1e-3)
        assert step["rollout/mismatch_max"] == pytest.approx(1.0, abs=1e-3)
        assert step["rollout/mismatch_capped"] == 0.0
        assert "policy/entropy" not in step
    assert any(step["train/rows"] for step in steps)
    # Before the three rounds of collecting and those of evaluation.
    assert len(server.reloaded) > 3
    assert not (tmp_path / "run" / "served").exists()
    with open_reader(tmp_path / "run" / "store.db") as reader:
        stored = reader.rows(Query()).rows
    assert {row.entropy for row in stored} == {None}
    assert len(stored) == 24


def test_it_repeats(model: Path, tmp_path: Path) -> None:
    with serving(server_of(model)) as url:
        first = train_on(model, tmp_path / "a", url, "run.name=same")
    with serving(server_of(model)) as url:
        again = train_on(model, tmp_path / "b", url, "run.name=same")
    for one, other in zip(first, again, strict=True):
        assert one["reward/mean"] == other["reward/mean"]
        assert one["train/loss"] == pytest.approx(other["train/loss"], abs=1e-6)


def test_old_weights_would_show(model: Path, tmp_path: Path) -> None:
    """A server that does not take the weights is seen in the figures, and bounded by the cap."""
    server = server_of(model)
    server._load = lambda folder: None  # type: ignore[method-assign]
    with serving(server) as url:
        steps = train_on(model, tmp_path / "run", url, "train.learning_rate=0.1", "run.steps=4")
    assert steps[0]["rollout/mismatch_max"] == pytest.approx(1.0, abs=1e-3)
    assert max(step["rollout/mismatch_max"] for step in steps) > 1.1


def test_a_server_that_goes_away_ends_the_run_and_it_goes_on(model: Path, tmp_path: Path) -> None:
    server = server_of(model)
    folder = tmp_path / "run"

    def leave(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == 2:
            server.failing = 10**6

    with serving(server) as url:
        config = make_config(model, SERVED, f"rollout.url={url}", PLAIN, "checkpoint.every=1")
        with pytest.raises(GeneratorLost, match="answered 503") as caught:
            run_to_end(folder, config, Recorder(leave))
        assert "recollect resume" in caught.value.hint
        server.failing = 0
        with open_session(RunFolder(folder), {}) as session:
            assert session.done == 1
            assert train(session).step == 3
    assert [line["step"] for line in figures(folder)] == [1, 2, 3]


def test_what_cannot_be_sampled_for_is_refused(model: Path, policy: Policy, tmp_path: Path) -> None:
    config = make_config(model, "rollout.engine=vllm")
    folder = RunFolder(tmp_path)
    with pytest.raises(BadConfig, match="2 processes"):
        make_sampler(config, policy, folder, 2)
    with pytest.raises(BadConfig, match="adapters"):
        make_sampler(config, adapted(model), folder, 1)
    assert isinstance(make_sampler(make_config(model), policy, folder, 2), Sampler)

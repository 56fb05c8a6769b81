"""The whole path: what the sampler recorded is what the trainer computes at version 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from models.architectures import ARCHITECTURES, make_model
from models.tokenizers_for_tests import make_tokenizer
from recollect.envs.registry import load_environment
from recollect.models.attention import packed
from recollect.models.loading import Lora, Policy, load_policy
from recollect.rollout.collector import Collector
from recollect.rollout.episode import Limits, Request
from recollect.rollout.sampler import Sampler
from recollect.train.packing import pack
from recollect.train.scorer import entropies, log_distributions, of_targets
from recollect.trajectory import Trajectory
from recollect.types import RunId, Sampling, Task, group_id, trajectory_id

from .worlds import LIMITS, STOPS, Echo, requests


def _collect(policy: Policy, sampling: Sampling) -> tuple[Trajectory, ...]:
    stops = (*policy.chat.stop_ids, *STOPS)
    policy.chat.stop_ids = stops
    collector = Collector(Echo(), policy.chat, Sampler(policy.model, stops, 5), LIMITS)
    try:
        collected = collector.collect(requests(range(4), rows=3), sampling)
    finally:
        collector.close()
    assert len(collected.trajectories) == 12
    return collected.trajectories


def _differences(
    policy: Policy, trajectories: tuple[Trajectory, ...], temperature: float, share: bool
) -> tuple[float, float]:
    """Largest |trained - recorded| of log-probs and entropies, in training mode."""
    assert policy.model.training
    starts = np.cumsum([0, *(t.sampled_count for t in trajectories)])
    recorded = [
        np.concatenate([t.logprobs for t in trajectories if t.logprobs is not None]),
        np.concatenate([t.entropies for t in trajectories if t.entropies is not None]),
    ]
    worst = [0.0, 0.0]
    seen = []
    for each in pack(trajectories, max_tokens=400, share=share):
        with packed(each.spans):
            everything = log_distributions(policy.model, each, temperature)
        assert everything.requires_grad
        places = starts[each.rows] + each.places.numpy()
        seen.extend(places.tolist())
        for n, found in enumerate((of_targets(everything, each), entropies(everything, each))):
            gaps = np.abs(found.detach().numpy() - recorded[n][places])
            worst[n] = max(worst[n], float(gaps.max()))
    assert sorted(seen) == list(range(starts[-1]))
    return worst[0], worst[1]


def _policy(folder: Path, architecture: str, **options: object) -> Policy:
    make_model(architecture).save_pretrained(folder)
    make_tokenizer("qwen2.5").save_pretrained(folder)
    return load_policy(str(folder), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_trained_log_probs_equal_the_recorded_ones(tmp_path: Path, architecture: str) -> None:
    policy = _policy(tmp_path, architecture)
    trajectories = _collect(policy, Sampling())
    for share in (True, False):
        assert max(_differences(policy, trajectories, 1.0, share)) < 2e-5


@pytest.mark.parametrize(
    "sampling", [Sampling(0.7), Sampling(0.0), Sampling(1.0, 0.5), Sampling(1.0, 1.0, 4)]
)
def test_however_it_was_sampled(tmp_path: Path, sampling: Sampling) -> None:
    policy = _policy(tmp_path, "qwen3")
    trajectories = _collect(policy, sampling)
    assert max(_differences(policy, trajectories, sampling.temperature, True)) < 2e-5


@pytest.mark.parametrize("architecture", ["llama-gqa", "gpt2"])
def test_with_adapters_and_checkpointing(tmp_path: Path, architecture: str) -> None:
    options = {"lora": Lora(4, 8.0), "gradient_checkpointing": True}
    policy = _policy(tmp_path, architecture, **options)
    with torch.no_grad():  # adapters that do something
        for name, parameter in policy.trainable():
            if "lora_B" in name:
                parameter.fill_(0.05)
    trajectories = _collect(policy, Sampling())
    assert max(_differences(policy, trajectories, 1.0, True)) < 2e-5
    with policy.model.disable_adapter():
        assert max(_differences(policy, trajectories, 1.0, True)) > 1e-2


def _request(task: Task, row: int) -> Request:
    run = RunId("run-a")
    name, group = trajectory_id(run, 1, task.key, row), group_id(run, 1, task.key)
    return Request(name, task, run, 1, group, policy_version=0, seed=5, row=row)


def test_the_built_in_model_at_its_desk() -> None:
    policy, environment = load_policy("tiny"), load_environment("desk")
    tasks = [task for task, _ in zip(environment.tasks("train"), range(100), strict=False)][::50]
    run = RunId("run-a")
    wanted = [
        Request(
            trajectory_id(run, 1, task.key, row),
            task,
            run,
            1,
            group_id(run, 1, task.key),
            0,
            5,
            row,
        )
        for task in tasks
        for row in range(4)
    ]
    sampler = Sampler(policy.model, policy.chat.stop_ids, 8)
    collector = Collector(environment, policy.chat, sampler, Limits(400, 64, 4))
    first, second = (collector.collect(wanted, Sampling()).trajectories for _ in range(2))
    collector.close()
    assert len(first) == len(wanted)
    assert [t.tokens.tolist() for t in first] == [t.tokens.tolist() for t in second]
    assert all(np.array_equal(a.logprobs, b.logprobs) for a, b in zip(first, second, strict=True))
    assert max(_differences(policy, first, 1.0, True)) < 5e-5
    special = set(policy.chat.tokenizer.all_special_ids) - set(policy.chat.stop_ids)
    for t in first:  # the environment's texts brought in no special token of their own
        inside = [s for s in t.segments if s.end - s.start > 2 and s.text]
        for s in inside:
            assert not special & set(t.tokens[s.start + 1 : s.end][~t.sampled[s.start + 1 : s.end]])

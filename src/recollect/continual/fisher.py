"""Fisher information of a policy's weights: what each of them matters to what it says.

    F_i = mean over trajectories tau ~ pi of (d log pi(tau) / d theta_i)^2

the diagonal of the Fisher matrix, from squared score gradients of attempts that the policy itself
sampled (Kirkpatrick et al. 2017, arXiv:1612.00796, with the policy's own samples, as the Fisher
matrix is defined; Kunstner et al. 2019 on why labels are no substitute). log pi(tau) is the sum
over its sampled tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import torch

from recollect.config.schema.config import Config
from recollect.envs.base import Environment
from recollect.models.attention import packed
from recollect.models.loading import Policy
from recollect.rollout.episode import Request
from recollect.train.packing import pack
from recollect.train.parts import make_collector
from recollect.train.schedule import Schedule, training_tasks
from recollect.train.scorer import log_distributions, of_targets, still
from recollect.trajectory import Trajectory
from recollect.types import RunId, Sampling

Weights: TypeAlias = dict[str, torch.Tensor]

_RUN = RunId("fisher")


def fisher(policy: Policy, rows: Sequence[Trajectory], temperature: float) -> Weights:
    """Diagonal Fisher information by the names of `policy.trainable()`; weights stay as they are.

    One backward pass for each row: squares of a sum are not the sum of squares. Adapters drop
    nothing meanwhile, as when the rows were sampled.
    """
    parameters = policy.trainable()
    found = {name: torch.zeros_like(p, dtype=torch.float32) for name, p in parameters}
    for row in rows:
        policy.model.zero_grad(set_to_none=True)
        for each in pack([row], row.tokens.size, False, policy.device):
            with still(policy.model), packed(each.spans):
                distributions = log_distributions(policy.model, each, temperature)
                score = of_targets(distributions, each).sum()
                score.backward()
        for name, parameter in parameters:
            if parameter.grad is not None:
                found[name] += parameter.grad.detach().float() ** 2
    policy.model.zero_grad(set_to_none=True)
    return {name: total / max(1, len(rows)) for name, total in found.items()}


def sample_rows(
    config: Config, environment: Environment, policy: Policy, count: int
) -> tuple[Trajectory, ...]:
    """Let a policy attempt `count` training tasks of its stage, by chance as in training."""
    tasks = training_tasks(environment, config.environment)
    schedule = Schedule(tasks, config.run.seed, min(count, len(tasks)))
    requests: list[Request] = []
    position = 0
    while len(requests) < count:
        taken, position = schedule.take(position, min(count - len(requests), len(tasks)))
        for task in taken:
            row, seed = len(requests), config.run.seed
            requests.append(Request.of(task, _RUN, 0, row, policy_version=0, seed=seed))
    rollout = config.rollout
    sampling = Sampling(rollout.temperature, rollout.top_p, rollout.top_k, rollout.max_turn_tokens)
    collector = make_collector(config, environment, policy)
    try:
        return collector.collect(requests, sampling).trajectories
    finally:
        collector.close()


def trained_weights(policy: Policy) -> Weights:
    """Copy the weights that training changes."""
    return {name: p.detach().clone() for name, p in policy.trainable()}


def save_weights(path: Path, *parts: tuple[str, Weights]) -> None:
    """Write named sets of weights into one safetensors file."""
    from safetensors.torch import save_file

    save_file(
        {
            f"{part}:{name}": value.detach().cpu().clone(memory_format=torch.contiguous_format)
            for part, weights in parts
            for name, value in weights.items()
        },
        str(path),
    )


def load_weights(path: Path, device: torch.device) -> dict[str, Weights]:
    """Read what `save_weights` wrote."""
    from safetensors.torch import load_file

    found: dict[str, Weights] = {}
    for full, value in load_file(str(path)).items():
        part, _, name = full.partition(":")
        found.setdefault(part, {})[name] = value.to(device)
    return found

"""Learners, batches and comparisons of weights, for the tests of learning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from recollect.config.schema.config import Config
from recollect.models.loading import Lora, Policy, load_policy
from recollect.train.batch import Batch, ScoredRow
from recollect.train.guards import Guard
from recollect.train.learner import Learner
from recollect.train.scorer import Reference
from recollect.train.scoring import score
from recollect.trajectory import Trajectory


def learner_of(policy: Policy, config: Config, tmp_path: Path) -> Learner:
    reference = Reference(policy) if config.algo.kl_coef else None
    guard = Guard(tmp_path / "bad", config.train.max_bad_steps)
    return Learner(policy, config, guard, reference)


def weights(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in policy.trainable()}


def changed(policy: Policy, before: dict[str, torch.Tensor]) -> bool:
    return any(not torch.equal(p, before[name]) for name, p in policy.trainable())


def difference(policy: Policy, other: Policy) -> float:
    pairs = zip(policy.trainable(), other.trainable(), strict=True)
    return max(float((p - q).detach().abs().max()) for (_, p), (_, q) in pairs)


def without_reward(rows: Sequence[Trajectory]) -> Batch:
    """Rows in which only what stands beside the reward can pull."""
    return Batch(tuple(ScoredRow(row, 0.0, True) for row in rows))


def grpo(rows: Sequence[Trajectory]) -> Batch:
    return score(rows, "grpo", [0.0] * len(rows))


def adapted(model: Path, dropout: float = 0.0) -> Policy:
    return load_policy(str(model), device="cpu", lora=Lora(2, 4.0, dropout))

"""Scoring: from rewards to advantages, over the rows as they will train."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from recollect.algo import advantages
from recollect.algo.advantages import Advantages
from recollect.train.batch import Batch, ScoredRow
from recollect.trajectory import Trajectory

Estimator = Callable[[torch.Tensor, torch.Tensor], Advantages]

ESTIMATORS: dict[str, Estimator] = {
    "grpo": advantages.grpo,
    "dr_grpo": advantages.dr_grpo,
    "rloo": advantages.rloo,
    "reinforce_plus_plus": lambda rewards, groups: advantages.reinforce_plus_plus(rewards),
    "reinforce_plus_plus_baseline": advantages.reinforce_plus_plus_baseline,
}


def score(trajectories: Sequence[Trajectory], estimator: str, penalties: Sequence[float]) -> Batch:
    """Give every row its advantage within its group; groups are known by their id.

    `penalties` are taken off the rewards first (the KL cost of each row, or zeros).
    """
    if not trajectories:
        return Batch(())
    numbers: dict[str, int] = {}
    labels = [numbers.setdefault(t.group, len(numbers)) for t in trajectories]
    values = [t.reward.value - p for t, p in zip(trajectories, penalties, strict=True)]
    # In float64 even absurd rewards have a mean and a spread; what they still break, the guard
    # of the update refuses.
    rewards = torch.tensor(values, dtype=torch.float64)
    usable = torch.isfinite(rewards)
    scored = ESTIMATORS[estimator](
        torch.where(usable, rewards, 0.0), torch.tensor(labels, dtype=torch.int64)
    )
    # A row that lost its reward on the way must not pass for a bad one.
    found = torch.where(usable, scored.values, torch.nan).tolist()
    signals = (scored.signal | ~usable).tolist()
    return Batch(
        tuple(
            ScoredRow(trajectory, value, signal)
            for trajectory, value, signal in zip(trajectories, found, signals, strict=True)
        )
    )

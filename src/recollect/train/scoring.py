"""Scoring: from rewards to advantages, over the rows as they will train."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from recollect.algo import advantages
from recollect.algo.advantages import Advantages
from recollect.replay.pick import Pick
from recollect.train.batch import Batch, ScoredRow, by_group
from recollect.trajectory import Trajectory

Estimator = Callable[[torch.Tensor, torch.Tensor], Advantages]

ESTIMATORS: dict[str, Estimator] = {
    "grpo": advantages.grpo,
    "dr_grpo": advantages.dr_grpo,
    "rloo": advantages.rloo,
    "reinforce_plus_plus": lambda rewards, groups: advantages.reinforce_plus_plus(rewards),
    "reinforce_plus_plus_baseline": advantages.reinforce_plus_plus_baseline,
    "reward": lambda rewards, groups: advantages.reward(rewards),
}


def score(
    fresh: Sequence[Trajectory],
    estimator: str,
    penalties: Sequence[float],
    picks: Sequence[Pick] = (),
    baseline_only: bool = False,
) -> Batch:
    """Give every row its advantage within its group; groups are known by their id.

    Stored rows are scored with the fresh rows of the group they were picked for. `penalties` are
    taken off the rewards first: one for each fresh row, then one for each pick. With
    `baseline_only` picks shift their group's statistics and carry no gradient.
    """
    rows = [*fresh, *(pick.trajectory for pick in picks)]
    if not rows:
        return Batch(())
    groups = [*(t.group for t in fresh), *(pick.group for pick in picks)]
    numbers: dict[str, int] = {}
    labels = [numbers.setdefault(group, len(numbers)) for group in groups]
    values = [t.reward.value - p for t, p in zip(rows, penalties, strict=True)]
    # In float64 even absurd rewards have a mean and a spread; what they still break, the guard
    # of the update refuses.
    rewards = torch.tensor(values, dtype=torch.float64)
    usable = torch.isfinite(rewards)
    scored = ESTIMATORS[estimator](
        torch.where(usable, rewards, 0.0), torch.tensor(labels, dtype=torch.int64)
    )
    push = 0.0
    if baseline_only and picks:
        withheld = torch.tensor([False] * len(fresh) + [True] * len(picks))
        scored = advantages.withhold(scored, withheld)
        push = float(scored.values.sum())
    # A row that lost its reward on the way must not pass for a bad one.
    found = torch.where(usable, scored.values, torch.nan).tolist()
    signals = (scored.signal | ~usable).tolist()
    origins: list[Pick | None] = [*([None] * len(fresh)), *picks]
    scored_rows = tuple(map(ScoredRow, rows, found, signals, origins))
    # Without stored rows there is nothing to bring together: the order is the collector's.
    return Batch(by_group(scored_rows) if picks else scored_rows, push=push)


def as_stored(updates: Sequence[Sequence[Pick]]) -> tuple[tuple[ScoredRow, ...], ...]:
    """Take rows of extra updates with the advantages they had."""
    return tuple(
        tuple(ScoredRow(p.trajectory, p.advantage or 0.0, True, p) for p in update)
        for update in updates
    )

"""Advantages from one reward per row, relative to a group or to the batch.

A group is a set of rows with the same label in `groups[R]`; labels are arbitrary integers and rows
of a group may stand anywhere. All rows of a step, fresh and replayed, are scored together, so the
advantages of a group sum to 0.

Rows without signal: a group of one row, or whose rewards are all equal, says nothing about which
row was better. Its advantages are exactly 0 and `signal` is False. (Some libraries give a group of
one its raw reward instead: that trains on an absolute scale no other group uses.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.algo.checks import (
    check_finite,
    check_floating,
    check_index,
    check_range,
    check_same_shape,
)
from recollect.algo.rows import Rows, row_counts, row_means, row_spans, row_sums, spread
from recollect.algo.whitening import has_spread, whiten


@dataclass(frozen=True, slots=True, eq=False)
class Advantages:
    """`values[R]`, and `signal` bool[R]: False where the row has no say in the gradient.

    Where `signal` is False the value is exactly 0. The converse does not hold: a row whose reward
    equals its baseline has advantage 0 in a group with signal.
    """

    values: Tensor
    signal: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Centred:
    """Rewards minus the group mean, with what the estimators need: [R] each."""

    groups: Rows
    values: Tensor
    sizes: Tensor
    signal: Tensor


def reward(rewards: Tensor) -> Advantages:
    """The reward itself, compared with nothing: A_i = r_i (REINFORCE, Williams 1992).

    `rewards[R]` finite. A row with reward 0 has no signal. With rows of a teacher, all of reward 1,
    the loss `reinforce` is then the cross-entropy of what the teacher said.
    """
    check_floating(rewards=rewards)
    check_finite(rewards=rewards)
    return Advantages(rewards, rewards != 0)


def grpo(
    rewards: Tensor, groups: Tensor, *, divide_by_std: bool = True, eps: float = 1e-6
) -> Advantages:
    """Group-relative advantage of GRPO (Shao et al. 2024, arXiv:2402.03300).

        A_i = (r_i - mean_g) / (std_g + eps)

    `rewards[R]` finite, `groups[R]` int64. std_g is the sample standard deviation (n - 1). With
    `divide_by_std=False` the denominator is 1: then E[sum_i A_i grad log pi(y_i)] / n is
    (n - 1) / n of the policy gradient, because a row is part of its own baseline.
    """
    check_range(0.0, math.inf, eps=eps)
    centred = _centre(rewards, groups)
    if not divide_by_std:
        return Advantages(centred.values, centred.signal)
    squares = row_sums(centred.values.square(), centred.groups)
    variance = spread(squares, centred.groups) / (centred.sizes - 1).clamp(min=1)
    # A group without signal has no deviation to divide by; its values are 0 as they stand.
    std = torch.where(centred.signal, variance, 1.0).sqrt()
    return Advantages(centred.values / (std + eps), centred.signal)


def dr_grpo(rewards: Tensor, groups: Tensor) -> Advantages:
    """Advantage of Dr. GRPO (Liu et al. 2025, arXiv:2503.20783): A_i = r_i - mean_g.

    Equals `grpo(..., divide_by_std=False)`; dividing by the standard deviation would weigh tasks
    by how uneven their rewards are. The other half of Dr. GRPO is the aggregation mode
    "seq-mean-token-sum-norm", which does not divide by a row's own length. Shapes [R].
    """
    return grpo(rewards, groups, divide_by_std=False)


def rloo(rewards: Tensor, groups: Tensor) -> Advantages:
    """Leave-one-out advantage (Kool et al. 2019; Ahmadian et al. 2024, arXiv:2402.14740).

        A_i = r_i - mean of the other rows of the group = n / (n - 1) * (r_i - mean_g)

    The baseline does not depend on row i, so the policy gradient is unbiased. Shapes [R].
    """
    centred = _centre(rewards, groups)
    factor = centred.sizes / (centred.sizes - 1).clamp(min=1)
    return Advantages(centred.values * factor, centred.signal)


def reinforce_plus_plus(rewards: Tensor, *, eps: float = 1e-8) -> Advantages:
    """Advantage of REINFORCE++ (Hu et al. 2025, arXiv:2501.03262), one reward per row.

        A_i = (r_i - mean_batch) / (std_batch + eps)

    The batch is the group: rows need no siblings, and there is no signal only if all rewards of
    the batch are equal. Statistics are over rows, so a long row counts once; to weigh by tokens,
    spread the rewards to tokens and use `whitening.whiten`. Shapes [R].
    """
    check_range(0.0, math.inf, eps=eps)
    _check_rewards(rewards)
    return _normalised(rewards, torch.ones_like(rewards, dtype=torch.bool), eps)


def reinforce_plus_plus_baseline(
    rewards: Tensor, groups: Tensor, *, eps: float = 1e-8
) -> Advantages:
    """Advantage of REINFORCE++ with group baseline (Hu et al. 2025, arXiv:2501.03262).

        A_i = c_i / (std_batch(c) + eps),   c_i = r_i - mean_g

    The group sets the baseline, the whole batch the scale. c has batch mean 0 by construction.
    Rows of groups without signal have c = 0 and, as in the paper, count in the scale: many dead
    groups make the advantages of the others larger. Shapes [R].
    """
    check_range(0.0, math.inf, eps=eps)
    centred = _centre(rewards, groups)
    return _normalised(centred.values, centred.signal, eps)


def withhold(scored: Advantages, baseline_only: Tensor) -> Advantages:
    """Take rows out of the gradient that have already shifted their group's statistics.

    `baseline_only` bool[R] marks rows that only serve as baseline (participation `baseline`). They
    get advantage 0 and signal False; the others keep theirs. What the withheld rows balanced is now
    missing: for zero-sum estimators `result.values.sum()` is the net push on the policy, negative
    when successes are withheld. Without any marked row the values are unchanged.
    """
    check_same_shape(advantages=scored.values, baseline_only=baseline_only)
    if baseline_only.dtype != torch.bool:
        raise ValueError(f"baseline_only must be bool, got {baseline_only.dtype}")
    return Advantages(
        torch.where(baseline_only, 0.0, scored.values), scored.signal & ~baseline_only
    )


def _check_rewards(rewards: Tensor) -> None:
    check_same_shape(rewards=rewards)
    check_floating(rewards=rewards)
    check_finite(rewards=rewards)


def _centre(rewards: Tensor, groups: Tensor) -> _Centred:
    check_same_shape(rewards=rewards, groups=groups)
    check_index(groups=groups)
    _check_rewards(rewards)
    members = Rows.from_labels(groups)
    everyone = torch.ones_like(rewards, dtype=torch.bool)
    sizes = spread(row_counts(everyone, members), members)
    low, high = row_spans(rewards.detach(), members)
    # Compared exactly: a standard deviation of equal numbers may come out as rounding noise.
    signal = spread(low < high, members)
    mean = spread(row_means(rewards, members, everyone), members)
    return _Centred(members, torch.where(signal, rewards - mean, 0.0), sizes, signal)


def _normalised(centred: Tensor, signal: Tensor, eps: float) -> Advantages:
    """Batch-normalise values [R]; no signal anywhere when nothing differs in the batch."""
    everyone = torch.ones_like(signal)
    alive = signal & has_spread(centred.detach(), everyone)
    return Advantages(torch.where(alive, whiten(centred, everyone, eps=eps), 0.0), alive)

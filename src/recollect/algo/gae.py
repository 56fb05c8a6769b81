"""Credit per token over time: generalised advantage estimation.

An episode of several turns interleaves tokens the policy sampled (inside the mask) with tokens the
environment wrote (outside). Time passes on sampled tokens only: the successor of the last token of
a turn is the first token of the next turn, one step later, however long the tool's answer between
them. A reward that falls on an environment token belongs to the last sampled token before it in
its row; one that falls before the first sampled token was not caused by the policy and is dropped.

Tokens of a row must appear in order; rows may be interleaved.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.algo.checks import check_range, check_same_shape, check_tokens
from recollect.algo.rows import Rows


@dataclass(frozen=True, slots=True, eq=False)
class Gae:
    """`advantages[N]` and `returns[N]` (the critic's targets), 0 outside the mask."""

    advantages: Tensor
    returns: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Sampled tokens, row by row: where they stand in [N], their row, and the credited reward."""

    where: Tensor
    row: Tensor
    rewards: Tensor


def gae(
    rewards: Tensor,
    values: Tensor,
    rows: Rows,
    mask: Tensor,
    *,
    gamma: float,
    lam: float,
) -> Gae:
    """Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438).

        delta_t = r_t + gamma V_{t+1} - V_t
        A_t     = delta_t + gamma lam A_{t+1}
        G_t     = A_t + V_t

    `rewards[N]`, `values[N]` (read inside the mask only; V_t is the value before token t was
    sampled), `mask` bool[N]. After the last sampled token of a row V is 0: an episode that was cut
    off has ended, with the reward it was given. Differentiable in rewards and values; `losses` and
    `values.value_loss` treat the result as constant.
    """
    check_tokens(mask, rewards=rewards, values=values)
    check_range(0.0, 1.0, gamma=gamma, lam=lam)
    steps = _steps(rewards, rows, mask)
    now = values[steps.where]
    follows = steps.row[1:] == steps.row[:-1]
    after = torch.cat([torch.where(follows, now[1:], 0.0), now.new_zeros(now[-1:].shape)])
    deltas = steps.rewards + gamma * after - now
    advantages = _discounted_sums(deltas, steps.row, gamma * lam)
    return Gae(
        torch.zeros_like(values).index_copy(0, steps.where, advantages),
        torch.zeros_like(values).index_copy(0, steps.where, advantages + now),
    )


def _steps(rewards: Tensor, rows: Rows, mask: Tensor) -> _Steps:
    check_same_shape(rewards=rewards, rows=rows.index)
    order = torch.argsort(rows.index, stable=True)
    sampled = mask[order]
    where = order[sampled]
    row = rows.index[where]
    # The number of the last sampled token at or before each token; -1 before the first of all.
    owner = sampled.cumsum(0) - 1
    owned = owner >= 0
    owned[owned.clone()] = row[owner[owned]] == rows.index[order[owned]]
    credited = rewards.new_zeros(where.numel())
    return _Steps(where, row, credited.index_add(0, owner[owned], rewards[order[owned]]))


def _discounted_sums(values: Tensor, row: Tensor, decay: float) -> Tensor:
    """S_t = values_t + decay S_{t+1} within each row, whose entries must be neighbours: [K] to [K].

    By doubling: after the pass with `step`, S_t covers the next 2 step entries. No Python loop over
    tokens, O(K log of the longest row).
    """
    sums, step = values, 1
    while step < values.numel():
        same = row[step:] == row[:-step]
        if not same.any():
            break
        ahead = torch.where(same, sums[step:], 0.0)
        sums = torch.cat([sums[:-step] + decay**step * ahead, sums[-step:]])
        step *= 2
    return sums

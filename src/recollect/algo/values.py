"""The critic's loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recollect.algo.checks import check_range, check_tokens


def value_loss(
    values: Tensor,
    returns: Tensor,
    mask: Tensor,
    *,
    old_values: Tensor | None = None,
    cliprange: float | None = None,
) -> Tensor:
    """Squared error of the critic, optionally clipped as in PPO's reference code: [N].

        L_t = 1/2 max((V - G)^2, (clip(V, V_old - c, V_old + c) - G)^2)

    `values[N]` carries gradient; `returns[N]` (from `gae`) and `old_values[N]` are constants. The
    clip needs both `old_values` and `cliprange`, or neither. 0 outside the mask.
    """
    if (old_values is None) != (cliprange is None):
        raise ValueError("old_values and cliprange go together: give both or neither")
    check_tokens(mask, values=values, returns=returns)
    now = torch.where(mask, values, 0.0)
    target = torch.where(mask, returns.detach(), 0.0)
    errors = (now - target).square()
    if old_values is not None and cliprange is not None:
        check_tokens(mask, old_values=old_values)
        check_range(0.0, math.inf, cliprange=cliprange)
        old = torch.where(mask, old_values.detach(), 0.0)
        near = torch.clamp(now, old - cliprange, old + cliprange)
        errors = torch.maximum(errors, (near - target).square())
    return 0.5 * errors

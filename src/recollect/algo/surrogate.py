"""The parts every policy objective is made of: a bounded ratio, a score, and what became of tokens.

All objectives here have, per token, a value w A and a gradient g A grad log pi. They differ in how
the weights w and g come from the policy ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.algo.checks import check_range


@dataclass(frozen=True, slots=True, eq=False)
class TokenDiagnostics:
    """What an objective did to each token: [N] each, constants.

    - `weights`: g in (gradient = g A grad log pi); 1 is the pull of a fresh token, 0 none;
    - `clipped_high`, `clipped_low`, `clipped_dual` (bool): the upper, lower or dual bound decided,
      not the ratio. In `mask` corrections these tokens are dropped;
    - `mask` (bool): the tokens that count. Everything else is 0 or False outside it.
    """

    weights: Tensor
    clipped_high: Tensor
    clipped_low: Tensor
    clipped_dual: Tensor
    mask: Tensor

    @property
    def clip_fraction(self) -> Tensor:
        """Share of counted tokens that any bound decided: a scalar, 0 for none."""
        cut = self.clipped_high | self.clipped_low | self.clipped_dual
        return cut.to(self.weights.dtype).sum() / self.mask.sum().clamp(min=1)


def constant_inside(advantages: Tensor, mask: Tensor) -> Tensor:
    """Advantages as constants, 0 outside the mask even where they are NaN: [N]."""
    return torch.where(mask, advantages.detach(), 0.0)


def score(log_ratios: Tensor) -> Tensor:
    """Ones whose gradient is that of `log_ratios[N]`: times a constant weight, a score term."""
    return (log_ratios - log_ratios.detach()).exp()


def diagnose(
    weights: Tensor,
    mask: Tensor,
    *,
    high: Tensor | None = None,
    low: Tensor | None = None,
    dual: Tensor | None = None,
) -> TokenDiagnostics:
    """Diagnostics from gradient weights [N] and the bool[N] flags an objective has."""
    none = torch.zeros_like(mask)
    return TokenDiagnostics(
        weights=torch.where(mask, weights.detach(), 0.0),
        clipped_high=none if high is None else high & mask,
        clipped_low=none if low is None else low & mask,
        clipped_dual=none if dual is None else dual & mask,
        mask=mask,
    )


def clipped_objective(
    log_ratios: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    low: float,
    high: float,
    dual: float | None,
) -> tuple[Tensor, TokenDiagnostics]:
    """PPO's pessimistic objective with dual clip, in closed form: objective [N] and diagnostics.

        A >= 0:  A min(r, 1 + high)
        A <  0:  A min(max(r, 1 - low), dual)

    which is min(r A, clip(r, 1 - low, 1 + high) A), for A < 0 bounded below by dual A. A bound that
    decides also stops the gradient. So `high` matters for A > 0 only, `low` and `dual` for A < 0.
    `low` in [0, 1], `high` >= 0, `dual` > 1 or None for no such bound. Shapes [N].
    """
    check_range(0.0, 1.0, low=low)
    check_range(0.0, math.inf, high=high)
    if dual is not None and not dual > 1.0:
        raise ValueError(f"dual must be greater than 1, got {dual:g}")
    fixed = constant_inside(advantages, mask)
    ratios = log_ratios.exp()
    good = fixed >= 0
    ceiling = torch.full_like(ratios, 1.0 + high).where(good, math.inf if dual is None else dual)
    floor = torch.zeros_like(ratios).where(good, 1.0 - low)
    over, under = ratios.detach() > ceiling, ratios.detach() < floor
    bounded = torch.where(over, ceiling, torch.where(under, floor, ratios))
    weights = torch.where(over | under, 0.0, ratios.detach())
    flags = diagnose(weights, mask, high=over & good, low=under, dual=over & ~good)
    return fixed * bounded, flags

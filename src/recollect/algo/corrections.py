"""Objectives for replayed tokens, which an older policy sampled: what to make of their ratio.

Each function takes (logprobs, behaviour_logprobs, advantages, mask), [N] each, to the objective
per token [N] (to be maximised) and its diagnostics. r is the policy ratio of the chosen `level`:
of the token, the geometric mean over its row, or of the whole row (`ratios.log_ratios`; the row
levels need `rows`). With the value w A and the gradient g A grad log pi:

    correction   w                   g                       price
    weight       r                   r                       unbounded variance
    clip         r within bounds     r, or 0 at a bound      tokens far off stop training
    shape        r / (r + beta)      beta r / (r + beta)^2   small where r is near 1
    truncate     min(r, cap)         min(r, cap)             capped tokens train too weakly
    mask_out     r inside, else 0    r inside, else 0        tokens outside the band are lost

The functions give 0 outside the mask, so a batch of fresh and replayed tokens is a plain sum:
loss = fresh_loss(mask & ~replayed) - off_policy_weight * objective(mask & replayed).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recollect.algo.checks import check_range, check_tokens
from recollect.algo.ratios import Level, log_ratios
from recollect.algo.rows import Rows
from recollect.algo.surrogate import (
    TokenDiagnostics,
    clipped_objective,
    constant_inside,
    diagnose,
    score,
)


def weight(
    logprobs: Tensor,
    behaviour_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    level: Level = "token",
    rows: Rows | None = None,
) -> tuple[Tensor, TokenDiagnostics]:
    """Plain importance sampling: objective r A. [N] in, [N] out.

    At level "sequence", summed over a row, its expectation under the behaviour policy has exactly
    the policy gradient. At level "token" that holds for rows of one token; on longer rows the
    first tokens are judged by what the *old* policy did next, and later states are visited as the
    old policy did. Its variance grows exponentially with length at level "sequence".
    """
    drift = _checked_log_ratios(logprobs, behaviour_logprobs, advantages, mask, level, rows)
    ratios = drift.exp()
    return constant_inside(advantages, mask) * ratios, diagnose(ratios, mask)


def clip(
    logprobs: Tensor,
    behaviour_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    off_cliprange_high: float,
    low: float = 0.2,
    dual: float | None = 3.0,
    level: Level = "token",
    rows: Rows | None = None,
) -> tuple[Tensor, TokenDiagnostics]:
    """PPO's clipped objective with an upper bound of its own for replayed tokens.

        A >= 0:  A min(r, 1 + off_cliprange_high)
        A <  0:  A min(max(r, 1 - low), dual)

    The bound is usually looser than the one for fresh tokens (0.6 to 1.0 against 0.2 to 0.28), so
    that a success the policy has moved towards still counts. Bias: the terms at a bound are missing
    from the gradient. As in AgentEvolver's mode higher_clip_bound; dual clip from Ye et al. 2020
    (arXiv:1912.09729). Shapes [N].
    """
    drift = _checked_log_ratios(logprobs, behaviour_logprobs, advantages, mask, level, rows)
    return clipped_objective(drift, advantages, mask, low=low, high=off_cliprange_high, dual=dual)


def shape(
    logprobs: Tensor,
    behaviour_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    beta: float = 0.1,
    level: Level = "token",
    rows: Rows | None = None,
) -> tuple[Tensor, TokenDiagnostics]:
    """Policy shaping: objective A f(r), f(x) = x / (x + beta) (ExGRPO, arXiv:2510.02245).

        gradient weight  r f'(r) = beta r / (r + beta)^2 = f (1 - f)

    It peaks at r = beta with 1/4 and is beta / (1 + beta)^2 at r = 1: with beta = 0.1 a replayed
    token near r = 1 pulls 12 times less than a fresh one, and the pull comes from tokens that have
    become unlikely. Use the off-policy weight to make up for it. For A < 0 there is no other bound
    than f < 1. Computed as sigmoid(log r - log beta), exact for any r. beta > 0. Shapes [N].
    """
    if not (beta > 0.0 and math.isfinite(beta)):
        raise ValueError(f"beta must be positive and finite, got {beta:g}")
    drift = _checked_log_ratios(logprobs, behaviour_logprobs, advantages, mask, level, rows)
    shaped = torch.sigmoid(drift - math.log(beta))
    pull = torch.sigmoid(math.log(beta) - drift.detach()) * shaped.detach()
    return constant_inside(advantages, mask) * shaped, diagnose(pull, mask)


def truncate(
    logprobs: Tensor,
    behaviour_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    cap: float,
    level: Level = "token",
    rows: Rows | None = None,
) -> tuple[Tensor, TokenDiagnostics]:
    """Truncated importance sampling: weight min(r, cap), a constant, times the score.

    Gradient min(r, cap) A grad log pi (Ionides 2008; the rho of V-trace, arXiv:1802.01561). Unlike
    `clip` a token beyond the cap still trains, in both directions. Bias against plain importance
    sampling: -E[(r - cap)+ A grad log pi]. cap > 0. Shapes [N].
    """
    if not cap > 0.0:
        raise ValueError(f"cap must be positive, got {cap:g}")
    drift = _checked_log_ratios(logprobs, behaviour_logprobs, advantages, mask, level, rows)
    ratios = drift.detach().exp()
    capped = ratios.clamp(max=cap)
    objective = constant_inside(advantages, mask) * capped * score(drift)
    return objective, diagnose(capped, mask, high=ratios > cap)


def mask_out(
    logprobs: Tensor,
    behaviour_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    low: float,
    high: float,
    level: Level = "token",
    rows: Rows | None = None,
) -> tuple[Tensor, TokenDiagnostics]:
    """Masked importance sampling: objective r A where low <= r <= high, 0 elsewhere.

    Drops what cannot be trusted instead of guessing at it; at a row level it drops whole rows. The
    band is a constant: no gradient comes from moving a token in or out. Bias against plain
    importance sampling: -E[r A grad log pi; r outside]. 0 <= low <= 1 <= high. Shapes [N].
    """
    check_range(0.0, 1.0, low=low)
    check_range(1.0, math.inf, high=high)
    drift = _checked_log_ratios(logprobs, behaviour_logprobs, advantages, mask, level, rows)
    ratios = drift.exp()
    over, under = ratios.detach() > high, ratios.detach() < low
    kept = torch.where(over | under, 0.0, ratios)
    return constant_inside(advantages, mask) * kept, diagnose(kept, mask, high=over, low=under)


def _checked_log_ratios(
    logprobs: Tensor,
    behaviour_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    level: Level,
    rows: Rows | None,
) -> Tensor:
    check_tokens(
        mask, logprobs=logprobs, behaviour_logprobs=behaviour_logprobs, advantages=advantages
    )
    return log_ratios(logprobs, behaviour_logprobs, mask, level=level, rows=rows)

"""Policy losses: (logprobs, old_logprobs, advantages, mask) to the loss per token and diagnostics.

All tensors are [N]; the loss is to be minimised and is 0 outside the mask. r is pi_now / pi_old,
sg(x) is x as a constant. Where all ratios are 1, every loss here has the value -A and the gradient
-A grad log pi, that of REINFORCE: they differ in what they do once the policy has moved. Turn the
tokens into one number with `aggregation.contributions`, summed.

Old log-probs are those of the policy that sampled (recorded), or of the policy at the start of the
step (recomputed). With the latter, multiply the per-token loss by sg(pi_start / pi_sampling) to get
the decoupled objective of Hilton et al. 2021 (arXiv:2110.00641).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recollect.algo.checks import check_range, check_tokens
from recollect.algo.corrections import weight
from recollect.algo.ratios import log_ratios
from recollect.algo.rows import Rows
from recollect.algo.surrogate import (
    TokenDiagnostics,
    clipped_objective,
    constant_inside,
    diagnose,
    score,
)


def reinforce(
    logprobs: Tensor, advantages: Tensor, mask: Tensor
) -> tuple[Tensor, TokenDiagnostics]:
    """Williams' score-function loss: gradient -A grad log pi (Williams 1992), value -A.

    Right for tokens the current policy sampled. On replayed tokens it is imitation weighted by A:
    no ratio is taken, so it needs no behaviour log-probs. Shapes [N].
    """
    check_tokens(mask, logprobs=logprobs, advantages=advantages)
    ones = score(torch.where(mask, logprobs, 0.0))
    return -constant_inside(advantages, mask) * ones, diagnose(ones, mask)


def importance_weighted(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
) -> tuple[Tensor, TokenDiagnostics]:
    """Off-policy policy gradient without any bound: -r A (Degris et al. 2012, arXiv:1205.4839).

    The ratio is that of each token; `corrections.weight` knows others. Shapes [N].
    """
    objective, diagnostics = weight(logprobs, old_logprobs, advantages, mask)
    return -objective, diagnostics


def ppo_clip(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    low: float = 0.2,
    high: float = 0.2,
    dual: float | None = None,
) -> tuple[Tensor, TokenDiagnostics]:
    """Clipped surrogate of PPO (Schulman et al. 2017, arXiv:1707.06347).

        L = -min(r A, clip(r, 1 - low, 1 + high) A)
        with dual clip (Ye et al. 2020, arXiv:1912.09729), for A < 0 only: L = min(L, -dual A)

    `high` > `low` is DAPO's clip-higher (Yu et al. 2025, arXiv:2503.14476: 0.2 and 0.28), which
    lets unlikely tokens grow faster. `dual` > 1, usually 3, bounds the loss of a token with A < 0
    that has become much more likely. Shapes [N].
    """
    check_tokens(mask, logprobs=logprobs, old_logprobs=old_logprobs, advantages=advantages)
    drift = log_ratios(logprobs, old_logprobs, mask)
    objective, diagnostics = clipped_objective(
        drift, advantages, mask, low=low, high=high, dual=dual
    )
    return -objective, diagnostics


def gspo(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    rows: Rows,
    *,
    low: float = 3e-4,
    high: float = 4e-4,
) -> tuple[Tensor, TokenDiagnostics]:
    """Group sequence policy optimisation (Zheng et al. 2025, arXiv:2507.18071), token form.

        s_i = exp(mean over the row of (log pi - log pi_old)),  s_it = sg(s_i) pi_t / sg(pi_t)
        L_it = -min(s_it A_it, clip(s_it, 1 - low, 1 + high) A_it)

    The ratio and the clip are the row's, each token is moved by its own score. With one advantage
    per row and mode "seq-mean-token-mean" value and gradient are those of the paper's sequence
    objective -min(s_i A_i, ...); advantages per token are possible too. Ratios of means are close
    to 1, hence the narrow bounds. Rows must be whole. Shapes [N].
    """
    check_tokens(mask, logprobs=logprobs, old_logprobs=old_logprobs, advantages=advantages)
    drift = log_ratios(logprobs, old_logprobs, mask, level="geometric", rows=rows)
    objective, diagnostics = clipped_objective(
        drift, advantages, mask, low=low, high=high, dual=None
    )
    return -objective, diagnostics


def cispo(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    high: float,
    low: float = 1.0,
) -> tuple[Tensor, TokenDiagnostics]:
    """Clipped importance weights as constants (MiniMax-M1 2025, arXiv:2506.13585).

        gradient -sg(clip(r, 1 - low, 1 + high)) A grad log pi

    The bounds hold for both signs of A and never stop the gradient: rare tokens that PPO's clip
    would silence keep training. `low` = 1 means no lower bound, as in the paper. Shapes [N].
    """
    check_range(0.0, 1.0, low=low)
    check_range(0.0, math.inf, high=high)
    check_tokens(mask, logprobs=logprobs, old_logprobs=old_logprobs, advantages=advantages)
    drift = log_ratios(logprobs, old_logprobs, mask)
    ratios = drift.detach().exp()
    weights = ratios.clamp(1.0 - low, 1.0 + high)
    loss = -constant_inside(advantages, mask) * weights * score(drift)
    over, under = ratios > 1.0 + high, ratios < 1.0 - low
    return loss, diagnose(weights, mask, high=over, low=under)


def topr(
    logprobs: Tensor,
    behaviour_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    rows: Rows,
) -> tuple[Tensor, TokenDiagnostics]:
    """Tapered off-policy REINFORCE (Le Roux et al. 2025, arXiv:2503.14286).

        A >= 0:  gradient -A grad log pi              (imitation, no ratio)
        A <  0:  gradient -min(r, 1) A grad log pi    (r of the whole row)

    Good rows are learnt however unlikely they have become; bad rows are pushed down only as long
    as the policy would still produce them, so that nothing runs off to minus infinity. With
    behaviour = current policy it is REINFORCE. Rows must be whole. Shapes [N].
    """
    check_tokens(
        mask, logprobs=logprobs, behaviour_logprobs=behaviour_logprobs, advantages=advantages
    )
    drift = log_ratios(logprobs, behaviour_logprobs, mask, level="sequence", rows=rows)
    fixed = constant_inside(advantages, mask)
    ratios = drift.detach().exp()
    bad = fixed < 0
    weights = torch.where(bad, ratios.clamp(max=1.0), 1.0)
    return -fixed * weights * score(drift), diagnose(weights, mask, high=bad & (ratios > 1.0))

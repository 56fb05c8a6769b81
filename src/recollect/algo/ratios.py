"""Policy ratios pi_now / pi_behaviour, per token and per row.

Everything is kept as a logarithm as long as possible. Before a ratio is formed its logarithm is
limited to +-MAX_LOG_RATIO, so that e^x and its square stay finite in float32: 20 means a factor of
5e8, far beyond the point where any correction lets a token through. The limit bounds the value
only; in `log_ratios` the gradient passes.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from recollect.algo.checks import check_range, check_tokens
from recollect.algo.rows import Rows, row_means, row_sums, spread

MAX_LOG_RATIO = 20.0

Level: TypeAlias = Literal["token", "geometric", "sequence"]


def log_ratios(
    logprobs: Tensor,
    behaviour_logprobs: Tensor,
    mask: Tensor,
    *,
    level: Level = "token",
    rows: Rows | None = None,
) -> Tensor:
    """Log policy ratio each token is weighted by: [N], 0 outside the mask.

    With d_t = logprobs_t - behaviour_logprobs_t, the *value* is

    - "token":     d_t;
    - "geometric": the mean of d over the token's row (GSPO, Zheng et al. 2025, arXiv:2507.18071);
    - "sequence":  the sum of d over the token's row, the exact ratio of the whole row;

    each limited to +-MAX_LOG_RATIO. The *gradient* is that of logprobs_t alone, at every level:
    each token is moved by its own score, weighted by its level's ratio. Summed over a row this is
    w grad log pi(row), so with "sequence" and no truncation the policy gradient is exact; "token"
    ignores what the change of earlier tokens does to later states, "geometric" is no probability
    ratio at all, only a measure of drift that does not explode with length.

    The row levels need `rows`, and every row whole. Rows over turns give per-turn ratios.
    `behaviour_logprobs` is a constant.
    """
    check_tokens(mask, logprobs=logprobs, behaviour_logprobs=behaviour_logprobs)
    current = torch.where(mask, logprobs, 0.0)
    fixed = current.detach()
    drift = fixed - torch.where(mask, behaviour_logprobs.detach(), 0.0)
    if level != "token":
        if rows is None:
            raise ValueError(f"level {level!r} needs rows")
        drift = spread(_over_rows(drift, rows, mask, level), rows)
    limited = torch.where(mask, drift.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO), 0.0)
    return limited + (current - fixed)


def truncated_ratios(
    logprobs: Tensor, behaviour_logprobs: Tensor, mask: Tensor, *, cap: float
) -> Tensor:
    """Weights min(pi / mu, cap) of tokens that mu sampled, as constants: [N], 1 outside the mask.

    Where one engine samples and another trains, mu and pi are the same policy but for rounding and
    kernels; multiplied with a loss whose ratios are against pi, the weights turn its expectation
    under mu into that under pi, up to the cap (truncated importance sampling, Ionides 2008, and Yao
    et al. 2025, "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training"). `cap`
    is at least 1: equal policies weigh exactly 1.
    """
    check_range(1.0, float("inf"), cap=cap)
    drift = log_ratios(logprobs.detach(), behaviour_logprobs, mask)
    return drift.exp().clamp(max=cap)


def _over_rows(drift: Tensor, rows: Rows, mask: Tensor, level: str) -> Tensor:
    """Token log-ratios, 0 outside the mask, to the level's log-ratio of each row: [N] to [R]."""
    if level == "geometric":
        return row_means(drift, rows, mask)
    if level == "sequence":
        return row_sums(drift, rows)
    raise ValueError(f"level must be 'token', 'geometric' or 'sequence', got {level!r}")

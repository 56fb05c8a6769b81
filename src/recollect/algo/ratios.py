"""Policy ratios pi_now / pi_behaviour: per token and per row, and how far they have drifted.

Everything is kept as a logarithm as long as possible. Before a ratio is formed its logarithm is
limited to +-MAX_LOG_RATIO, so that e^x and its square stay finite in float32: 20 means a factor of
5e8, far beyond the point where any correction lets a token through. The limit bounds the value
only; in `log_ratios` the gradient passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from recollect.algo.checks import check_range, check_same_shape, check_tokens
from recollect.algo.rows import Rows, row_counts, row_means, row_sums, spread

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


def effective_sample_size(log_weights: Tensor, mask: Tensor) -> Tensor:
    """Kish's effective sample size of weights w = e^x: (sum w)^2 / sum w^2, a scalar in [0, n].

    `log_weights[N]` per token (or per row, with a mask per row). n equal weights give n, one
    dominant weight gives 1, an empty set 0. Divide by `mask.sum()` for the fraction. A factor
    common to all weights cancels: a uniform drift is invisible here, look at the mean ratio too.
    """
    everything = Rows(torch.zeros_like(mask, dtype=torch.int64), 1)
    return row_effective_sample_size(log_weights, everything, mask).squeeze(0)


def row_effective_sample_size(log_weights: Tensor, rows: Rows, mask: Tensor) -> Tensor:
    """`effective_sample_size` within each row: [R], 0 for a fully masked row.

    Divide by `rows.row_counts(mask, rows)` for the fraction.
    """
    check_tokens(mask, log_weights=log_weights)
    check_same_shape(mask=mask, rows=rows.index)
    inside = torch.where(mask, log_weights.detach(), float("-inf"))
    peaks = inside.new_full((rows.count,), float("-inf"))
    peaks = peaks.scatter_reduce(0, rows.index, inside, "amax")
    # Weights relative to the row's largest: the squares neither overflow nor all vanish.
    weights = torch.where(mask, (log_weights.detach() - spread(peaks, rows)).exp(), 0.0)
    totals, squares = row_sums(weights, rows), row_sums(weights.square(), rows)
    return torch.where(squares > 0, totals.square() / squares, 0.0)


def ratio_quantiles(log_ratios: Tensor, mask: Tensor, quantiles: Sequence[float]) -> Tensor:
    """Quantiles of the ratios e^x over the tokens inside the mask: [len(quantiles)].

    Linear interpolation between neighbours; 0 if the mask is empty. Any N (torch.quantile stops at
    16 million).
    """
    everything = Rows(torch.zeros_like(mask, dtype=torch.int64), 1)
    return row_ratio_quantiles(log_ratios, everything, mask, quantiles).squeeze(0)


def row_ratio_quantiles(
    log_ratios: Tensor, rows: Rows, mask: Tensor, quantiles: Sequence[float]
) -> Tensor:
    """`ratio_quantiles` within each row: [R, len(quantiles)], 0 for a fully masked row."""
    check_tokens(mask, log_ratios=log_ratios)
    check_same_shape(mask=mask, rows=rows.index)
    check_range(0.0, 1.0, **{f"quantiles[{i}]": q for i, q in enumerate(quantiles)})
    values, owner = log_ratios.detach()[mask], rows.index[mask]
    by_value = torch.argsort(values)
    ranked = by_value[torch.argsort(owner[by_value], stable=True)]
    ratios = torch.cat([values[ranked].exp(), values.new_zeros(1)])
    counts = row_counts(mask, rows)
    starts = (counts.cumsum(0) - counts).unsqueeze(1)
    steps = (counts - 1).clamp(min=0).unsqueeze(1)
    exact = torch.promote_types(values.dtype, torch.float32)
    ranks = steps * torch.tensor(list(quantiles), dtype=exact, device=mask.device)
    below = torch.minimum(ranks.floor().to(torch.int64), steps)
    left, right = ratios[starts + below], ratios[starts + torch.minimum(below + 1, steps)]
    found = left + (right - left) * (ranks - below).to(ratios.dtype)
    return torch.where((counts > 0).unsqueeze(1), found, 0.0)


def _over_rows(drift: Tensor, rows: Rows, mask: Tensor, level: str) -> Tensor:
    """Token log-ratios, 0 outside the mask, to the level's log-ratio of each row: [N] to [R]."""
    if level == "geometric":
        return row_means(drift, rows, mask)
    if level == "sequence":
        return row_sums(drift, rows)
    raise ValueError(f"level must be 'token', 'geometric' or 'sequence', got {level!r}")

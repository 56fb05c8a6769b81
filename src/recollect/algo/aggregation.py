"""From the loss of each token to one number.

Every mode is a weighted sum, sum_t u_t loss_t, with m_i the counted tokens of row i, M their total
and R the number of rows:

    mode                      u_t             says
    token-mean                1 / M           every token counts the same (DAPO, arXiv:2503.14476)
    seq-mean-token-mean       1 / (R m_i)     every row counts the same (GRPO, arXiv:2402.03300)
    seq-mean-token-sum        1 / R           a row counts by its length
    seq-mean-token-sum-norm   1 / (R norm)    the same over a constant (Dr. GRPO, arXiv:2503.20783)

M or R is the denominator. When a step is computed in several pieces, pass the denominator of the
whole step to each (`batch_denominator` computes it): then the pieces add up to the whole. Rows must
not be cut for "seq-mean-token-mean".

Empty sets: a fully masked row contributes 0 and is still one of the R rows; a batch without counted
tokens gives 0.0, attached to the graph, with gradient 0.

R counts the rows that are handed in. In training those are the rows with signal: attempts of a
group whose rewards are all equal are in neither M nor R, and have neither a KL loss nor an entropy
bonus.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from recollect.algo.checks import check_range, check_same_shape, check_tokens
from recollect.algo.rows import Rows, row_counts, spread

Mode: TypeAlias = Literal[
    "token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
]
MODES: tuple[Mode, ...] = (
    "token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
)


def contributions(
    losses: Tensor,
    rows: Rows,
    mask: Tensor,
    *,
    mode: Mode,
    denominator: float | None = None,
    norm: float | None = None,
) -> Tensor:
    """What each of `losses[N]` adds to the step's loss: [N], 0 outside the mask.

    Their sum is the loss, never NaN for finite losses. `denominator` replaces the batch's own
    (tokens or rows, see `batch_denominator`). `norm` is Dr. GRPO's constant, usually the longest
    allowed completion, and goes with that mode only.
    """
    check_tokens(mask, losses=losses)
    weights = token_weights(
        rows, mask, mode=mode, denominator=denominator, norm=norm, dtype=losses.dtype
    )
    return torch.where(mask, losses, 0.0) * weights


def token_weights(
    rows: Rows,
    mask: Tensor,
    *,
    mode: Mode,
    denominator: float | None = None,
    norm: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The weight u_t of each token in the aggregated loss: [N], 0 outside the mask.

    Times a row's losses (or |gradient weight x advantage|) this is the row's share in the step.
    """
    check_tokens(mask)
    check_same_shape(mask=mask, rows=rows.index)
    _check_mode(mode, norm)
    if denominator is None:
        denominator = batch_denominator(int(mask.sum()), rows.count, mode=mode)
    check_range(0.0, math.inf, denominator=denominator)
    # A denominator of 0 means that nothing counts in the whole step.
    scale = 1.0 / (denominator * (norm or 1.0)) if denominator else 0.0
    weights = torch.where(mask, torch.full_like(mask, scale, dtype=dtype), 0.0)
    if mode == "seq-mean-token-mean":
        weights = weights / spread(row_counts(mask, rows).clamp(min=1), rows)
    return weights


def batch_denominator(tokens: int, rows: int, *, mode: Mode) -> float:
    """What the mode divides by: counted tokens for "token-mean", else the number of rows.

    Denominators of the pieces of a step add up to that of the step.
    """
    return float(tokens if mode == "token-mean" else rows)


def _check_mode(mode: str, norm: float | None) -> None:
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    if (norm is None) == (mode == "seq-mean-token-sum-norm"):
        raise ValueError(f"norm goes with 'seq-mean-token-sum-norm' and only with it, got {norm}")
    if norm is not None and not norm > 0:
        raise ValueError(f"norm must be positive, got {norm:g}")

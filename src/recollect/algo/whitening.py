"""Whitening: shift and scale a set of numbers to mean 0 and standard deviation 1."""

from __future__ import annotations

import torch
from torch import Tensor

from recollect.algo.checks import check_tokens


def whiten(values: Tensor, mask: Tensor, *, shift: bool = True, eps: float = 1e-8) -> Tensor:
    """Standardise `values[N]` over the mask: (x - mean) / (std + eps), 0 outside it.

    std is the sample standard deviation (n - 1). With `shift=False` the mean is put back, so only
    the scale changes. Numbers without spread (none, one, or all equal) are not scaled: the result
    is 0, or the values themselves with `shift=False`.
    """
    check_tokens(mask, values=values)
    inside = torch.where(mask, values, 0.0)
    count = mask.sum()
    mean = inside.sum() / count.clamp(min=1)
    centred = torch.where(mask, inside - mean, 0.0)
    if has_spread(values, mask):
        std = (centred.square().sum() / (count - 1)).sqrt()
        scaled = centred / (std + eps)
    else:
        # Rounding of the mean may leave a residue; equal numbers mean exactly 0.
        scaled = torch.zeros_like(centred)
        mean = inside if not shift else mean
    return scaled if shift else torch.where(mask, scaled + mean, 0.0)


def has_spread(values: Tensor, mask: Tensor) -> bool:
    """Whether at least two of the numbers inside the mask differ."""
    inside = values[mask]
    return bool(inside.numel() > 1 and inside.min() < inside.max())

"""Whitening: shift and scale a set of numbers to mean 0 and standard deviation 1."""

from __future__ import annotations

import torch
from torch import Tensor

from recollect.algo.checks import check_tokens


def whiten(values: Tensor, mask: Tensor, *, eps: float = 1e-8) -> Tensor:
    """Standardise `values[N]` over the mask: (x - mean) / (std + eps), 0 outside it.

    std is the sample standard deviation (n - 1). Numbers without spread (none, one, or all equal)
    give 0.
    """
    check_tokens(mask, values=values)
    inside = torch.where(mask, values, 0.0)
    count = mask.sum()
    mean = inside.sum() / count.clamp(min=1)
    centred = torch.where(mask, inside - mean, 0.0)
    if not has_spread(values, mask):
        # Rounding of the mean may leave a residue; equal numbers mean exactly 0.
        return torch.zeros_like(centred)
    std = (centred.square().sum() / (count - 1)).sqrt()
    return centred / (std + eps)


def has_spread(values: Tensor, mask: Tensor) -> bool:
    """Whether at least two of the numbers inside the mask differ."""
    inside = values[mask]
    return bool(inside.numel() > 1 and inside.min() < inside.max())

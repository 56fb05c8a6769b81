"""Argument checks: a wrong shape is a programmer's error and says so, with names and shapes."""

from __future__ import annotations

import torch
from torch import Tensor


def check_same_shape(**tensors: Tensor) -> None:
    """All tensors are one-dimensional and equally long, else ValueError names each shape."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if any(len(shape) != 1 for shape in shapes.values()) or len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name}{list(shape)}" for name, shape in shapes.items())
        raise ValueError(f"expected one-dimensional tensors of one length, got {listed}")


def check_floating(**tensors: Tensor) -> None:
    """All tensors hold floating-point numbers."""
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ValueError(f"{name} must be floating point, got {tensor.dtype}")


def check_index(**tensors: Tensor) -> None:
    """All tensors hold int64 indices."""
    for name, tensor in tensors.items():
        if tensor.dtype != torch.int64:
            raise ValueError(f"{name} must be int64, got {tensor.dtype}")


def check_tokens(mask: Tensor, **values: Tensor) -> None:
    """`values` are floating and shaped like the bool `mask`: [N] each."""
    check_same_shape(mask=mask, **values)
    check_floating(**values)
    if mask.dtype != torch.bool:
        raise ValueError(f"mask must be bool, got {mask.dtype}")


def check_finite(**tensors: Tensor) -> None:
    """All numbers are finite. Reads the tensor, so only for per-row tensors."""
    for name, tensor in tensors.items():
        bad = int((~torch.isfinite(tensor)).sum())
        if bad:
            raise ValueError(f"{name} must be finite: {bad} of {tensor.numel()} are not")


def check_range(low: float, high: float, /, **numbers: float) -> None:
    """All numbers lie in [low, high] (NaN does not)."""
    for name, number in numbers.items():
        if not low <= number <= high:
            raise ValueError(f"{name} must be in [{low:g}, {high:g}], got {number:g}")

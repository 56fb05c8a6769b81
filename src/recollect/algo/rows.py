"""Rows: which row each token of a packed batch belongs to, and sums over rows.

The same bookkeeping serves any partition: tokens into rows, tokens into turns, rows into groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.algo.checks import check_index, check_same_shape, check_tokens


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """`index` int64[N]: the row of each token; `count`: the number of rows R, empty ones included.

    Promise, checked at construction: 0 <= index < count.
    """

    index: Tensor
    count: int

    def __post_init__(self) -> None:
        check_same_shape(index=self.index)
        check_index(index=self.index)
        if self.count < 0:
            raise ValueError(f"count must not be negative, got {self.count}")
        if self.index.numel():
            low, high = int(self.index.min()), int(self.index.max())
            if low < 0 or high >= self.count:
                raise ValueError(f"row indices span {low}..{high}, but there are {self.count} rows")

    @classmethod
    def from_lengths(cls, lengths: Sequence[int], device: torch.device | None = None) -> Rows:
        """Rows packed one after the other, `lengths[r]` tokens each."""
        counts = torch.tensor(list(lengths), dtype=torch.int64, device=device)
        numbers = torch.arange(len(lengths), device=device)
        return cls(numbers.repeat_interleave(counts), len(lengths))

    @classmethod
    def from_labels(cls, labels: Tensor) -> Rows:
        """The partition by equal labels (any int64 values), numbered in ascending order."""
        check_index(labels=labels)
        distinct, index = torch.unique(labels, return_inverse=True)
        return cls(index, int(distinct.numel()))


def row_sums(values: Tensor, rows: Rows) -> Tensor:
    """Sum of `values[N]` over each row: [R], 0 for a row without tokens.

    On CUDA the order of summation is only fixed under `torch.use_deterministic_algorithms(True)`.
    """
    check_same_shape(values=values, rows=rows.index)
    return values.new_zeros(rows.count).index_add(0, rows.index, values)


def row_counts(mask: Tensor, rows: Rows) -> Tensor:
    """Number of tokens of each row inside the mask: int64[R]."""
    check_tokens(mask)
    return row_sums(mask.to(torch.int64), rows)


def row_means(values: Tensor, rows: Rows, mask: Tensor) -> Tensor:
    """Mean of `values[N]` over each row's tokens inside the mask: [R], 0 where there are none."""
    check_tokens(mask, values=values)
    sums = row_sums(torch.where(mask, values, 0.0), rows)
    return sums / row_counts(mask, rows).clamp(min=1)


def row_spans(values: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """Smallest and largest of `values[N]` in each row: [R] each, +inf and -inf for an empty row."""
    check_same_shape(values=values, rows=rows.index)
    low = values.new_full((rows.count,), float("inf"))
    high = values.new_full((rows.count,), float("-inf"))
    return (
        low.scatter_reduce(0, rows.index, values, "amin"),
        high.scatter_reduce(0, rows.index, values, "amax"),
    )


def spread(values: Tensor, rows: Rows) -> Tensor:
    """Give each token the value of its row: [R] to [N]."""
    if tuple(values.shape) != (rows.count,):
        raise ValueError(f"values{list(values.shape)} must have one entry for {rows.count} rows")
    return values[rows.index]

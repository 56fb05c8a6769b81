"""Random packed batches for property tests, drawn from hypothesis and nothing global."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from recollect.algo.rows import Rows
from recollect.algo.surrogate import TokenDiagnostics

# The machine may be busy: examples are bounded in number, not in time.
bounded = settings(deadline=None, max_examples=25, derandomize=True)


@dataclass(frozen=True)
class Batch:
    """Tokens of a few rows, some masked, some rows empty; float64 for exact comparisons."""

    logprobs: Tensor
    behaviour: Tensor
    advantages: Tensor
    mask: Tensor
    rows: Rows

    @property
    def arguments(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.logprobs, self.behaviour, self.advantages, self.mask


def make_batch(lengths: list[int], seed: int, drift: float = 1.0, keep: float = 0.8) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    rows = Rows.from_lengths(lengths)
    count = rows.index.numel()

    def normal(size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)

    behaviour = -normal(count).abs() - 0.1
    return Batch(
        logprobs=(behaviour + drift * normal(count)).requires_grad_(),
        behaviour=behaviour,
        advantages=normal(rows.count)[rows.index],
        mask=torch.rand(count, generator=generator) < keep,
        rows=rows,
    )


batches = st.builds(
    make_batch,
    lengths=st.lists(st.integers(0, 6), min_size=0, max_size=6),
    seed=st.integers(0, 2**31),
    drift=st.sampled_from([0.0, 0.1, 1.0, 10.0]),
    keep=st.sampled_from([0.0, 0.5, 1.0]),
)


def gradient(scalar: Tensor, wrt: Tensor) -> Tensor:
    """d scalar / d wrt, zeros where it does not depend on it."""
    (found,) = torch.autograd.grad(scalar, wrt, allow_unused=True)
    return torch.zeros_like(wrt) if found is None else found


def tokens(*numbers: float, grad: bool = False) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=grad)


def flags(*bits: int) -> Tensor:
    return torch.tensor(bits, dtype=torch.bool)


@dataclass(frozen=True)
class Shares:
    """What became of the counted tokens: shares that each bound decided, and their mean weight."""

    high: float
    low: float
    dual: float
    cut: float
    weight: float


def shares(found: TokenDiagnostics) -> Shares:
    """Count over the mask; all 0 where nothing counts."""
    counted = max(int(found.mask.sum()), 1)
    parts = (found.clipped_high, found.clipped_low, found.clipped_dual, found.weights)
    high, low, dual, weight = (float(part.sum()) / counted for part in parts)
    return Shares(high, low, dual, found.clip_fraction.item(), weight)

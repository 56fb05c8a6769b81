from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recollect.algo.aggregation import (
    MODES,
    Mode,
    batch_denominator,
    contributions,
    token_weights,
)
from recollect.algo.rows import Rows

from .batches import Batch, batches, bounded, flags, gradient, tokens

# Row 0: losses 1, 2, 3. Row 1: 4, and a masked 100. Row 2: fully masked.
ROWS = Rows.from_lengths([3, 2, 1])
LOSSES = tokens(1.0, 2.0, 3.0, 4.0, 100.0, 100.0)
MASK = flags(1, 1, 1, 1, 0, 0)


def loss(*batch: Any, **how: Any) -> torch.Tensor:
    """Add up what every token contributes, as a step does."""
    return contributions(*batch, **how).sum()


def norm_of(mode: Mode) -> float | None:
    return 8.0 if mode == "seq-mean-token-sum-norm" else None


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("token-mean", 10 / 4),
        ("seq-mean-token-mean", (2 + 4 + 0) / 3),
        ("seq-mean-token-sum", (6 + 4 + 0) / 3),
        ("seq-mean-token-sum-norm", (6 + 4 + 0) / 3 / 8),
    ],
)
def test_by_hand(mode: Mode, expected: float) -> None:
    found = loss(LOSSES, ROWS, MASK, mode=mode, norm=norm_of(mode))
    assert found.shape == ()
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_batch_is_zero_and_still_attached(mode: Mode) -> None:
    for lengths in ([], [0], [0, 0]):
        losses = torch.zeros(0, requires_grad=True)
        found = loss(losses, Rows.from_lengths(lengths), flags(), mode=mode, norm=norm_of(mode))
        assert found.item() == 0.0
        assert found.requires_grad
        assert torch.autograd.grad(found, losses)[0].tolist() == []


@pytest.mark.parametrize("mode", MODES)
def test_a_fully_masked_batch_is_zero_with_gradient_zero(mode: Mode) -> None:
    losses = tokens(1.0, float("nan"), grad=True)
    found = loss(losses, Rows.from_lengths([1, 1]), flags(0, 0), mode=mode, norm=norm_of(mode))
    assert found.item() == 0.0
    assert gradient(found, losses).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("mode", MODES)
def test_gradient(mode: Mode) -> None:
    losses = LOSSES.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: loss(x, ROWS, MASK, mode=mode, norm=norm_of(mode)), losses
    )
    slope = gradient(loss(losses, ROWS, MASK, mode=mode, norm=norm_of(mode)), losses)
    weights = token_weights(ROWS, MASK, mode=mode, norm=norm_of(mode), dtype=torch.float64)
    torch.testing.assert_close(slope, weights)


def test_denominators() -> None:
    assert batch_denominator(4, 3, mode="token-mean") == 4.0
    assert batch_denominator(4, 3, mode="seq-mean-token-sum") == 3.0
    found = loss(LOSSES, ROWS, MASK, mode="token-mean", denominator=20.0)
    assert found.item() == pytest.approx(0.5)


def test_a_step_in_which_nothing_counts_is_zero() -> None:
    nothing = flags(0, 0, 0, 0, 0, 0)
    assert loss(LOSSES, ROWS, nothing, mode="token-mean", denominator=0.0).item() == 0.0


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="mode must be one of token-mean, seq-mean-token-mean"):
        loss(LOSSES, ROWS, MASK, mode="mean")
    with pytest.raises(ValueError, match="norm goes with"):
        loss(LOSSES, ROWS, MASK, mode="seq-mean-token-sum-norm")
    with pytest.raises(ValueError, match="norm goes with"):
        loss(LOSSES, ROWS, MASK, mode="token-mean", norm=8.0)
    with pytest.raises(ValueError, match="norm must be positive"):
        loss(LOSSES, ROWS, MASK, mode="seq-mean-token-sum-norm", norm=0.0)
    with pytest.raises(ValueError, match="denominator must be in"):
        loss(LOSSES, ROWS, MASK, mode="token-mean", denominator=-1.0)
    with pytest.raises(ValueError, match=r"mask\[6\], losses\[5\]"):
        loss(LOSSES[:5], ROWS, MASK, mode="token-mean")
    with pytest.raises(ValueError, match=r"rows\[2\]"):
        loss(LOSSES, Rows.from_lengths([2]), MASK, mode="token-mean")


@pytest.mark.parametrize("mode", MODES)
@bounded
@given(batch=batches, cut=st.integers(0, 6))
def test_pieces_add_up_to_the_whole(mode: Mode, batch: Batch, cut: int) -> None:
    """A step computed in two micro-batches of whole rows gives the same number."""
    losses, rows, mask = batch.advantages, batch.rows, batch.mask
    cut = min(cut, rows.count)
    total = batch_denominator(int(mask.sum()), rows.count, mode=mode)
    parts, shares = [], []
    for first, last in ((0, cut), (cut, rows.count)):
        inside = (rows.index >= first) & (rows.index < last)
        piece = Rows(rows.index[inside] - first, last - first)
        shares.append(batch_denominator(int(mask[inside].sum()), piece.count, mode=mode))
        parts.append(
            loss(
                losses[inside],
                piece,
                mask[inside],
                mode=mode,
                denominator=total,
                norm=norm_of(mode),
            )
        )
    whole = loss(losses, rows, mask, mode=mode, norm=norm_of(mode))
    torch.testing.assert_close(parts[0] + parts[1], whole)
    assert sum(shares) == total


@bounded
@given(batches)
def test_means_of_a_constant_are_that_constant(batch: Batch) -> None:
    everything = torch.ones_like(batch.mask)
    nonempty = Rows.from_labels(batch.rows.index)
    sevens = torch.full(everything.shape, 7.0, dtype=torch.float64)
    for mode in ("token-mean", "seq-mean-token-mean"):
        found = loss(sevens, nonempty, everything, mode=mode)
        assert found.item() == pytest.approx(7.0 if everything.numel() else 0.0)


@pytest.mark.parametrize("mode", MODES)
@bounded
@given(batch=batches)
def test_masked_tokens_have_no_weight(mode: Mode, batch: Batch) -> None:
    weights = token_weights(batch.rows, batch.mask, mode=mode, norm=norm_of(mode))
    assert torch.isfinite(weights).all()
    assert (weights[~batch.mask] == 0).all()
    assert (weights[batch.mask] > 0).all()

import pytest
import torch
from hypothesis import given

from recollect.algo.values import value_loss

from .batches import Batch, batches, bounded, flags, gradient, tokens


def test_by_hand() -> None:
    found = value_loss(tokens(1.0, 5.0, 2.0), tokens(3.0, 0.0, 2.0), flags(1, 0, 1))
    torch.testing.assert_close(found, tokens(2.0, 0.0, 0.0))


def test_clipped_by_hand() -> None:
    # V moved from 0 to 1 with a range of .2: the error of .2 against 1 counts, not that of 1.
    found = value_loss(
        tokens(1.0, 1.0, 0.1),
        tokens(1.0, -1.0, 1.0),
        flags(1, 1, 1),
        old_values=tokens(0.0, 0.0, 0.0),
        cliprange=0.2,
    )
    torch.testing.assert_close(found, tokens(0.32, 2.0, 0.405))


def test_only_values_carry_gradient() -> None:
    values, returns = tokens(1.0, 2.0, grad=True), tokens(0.0, 4.0, grad=True)
    loss = value_loss(values, returns, flags(1, 1)).sum()
    assert gradient(loss, values).tolist() == [1.0, -2.0]
    assert gradient(value_loss(values, returns, flags(1, 1)).sum(), returns).tolist() == [0.0, 0.0]


def test_finite_differences() -> None:
    returns, old = tokens(0.3, -0.2, 0.9), tokens(0.1, 0.0, 0.5)
    values = tokens(0.7, 0.1, 0.45, grad=True)
    mask = flags(1, 1, 1)
    assert torch.autograd.gradcheck(lambda v: value_loss(v, returns, mask), values)
    assert torch.autograd.gradcheck(
        lambda v: value_loss(v, returns, mask, old_values=old, cliprange=0.2), values
    )


def test_clip_arguments_go_together() -> None:
    one, mask = tokens(1.0), flags(1)
    with pytest.raises(ValueError, match="both or neither"):
        value_loss(one, one, mask, cliprange=0.2)
    with pytest.raises(ValueError, match="both or neither"):
        value_loss(one, one, mask, old_values=one)
    with pytest.raises(ValueError, match="cliprange must be in"):
        value_loss(one, one, mask, old_values=one, cliprange=-0.1)
    with pytest.raises(ValueError, match=r"returns\[2\]"):
        value_loss(one, tokens(1.0, 2.0), mask)


def test_masked_nan_stays_out() -> None:
    values = tokens(1.0, float("nan"), grad=True)
    loss = value_loss(values, tokens(0.0, float("nan")), flags(1, 0)).sum()
    assert gradient(loss, values).tolist() == [1.0, 0.0]


@bounded
@given(batches)
def test_the_clipped_loss_is_never_smaller(batch: Batch) -> None:
    plain = value_loss(batch.logprobs, batch.advantages, batch.mask)
    clipped = value_loss(
        batch.logprobs, batch.advantages, batch.mask, old_values=batch.behaviour, cliprange=0.2
    )
    assert (clipped >= plain).all()
    assert (plain[~batch.mask] == 0).all()

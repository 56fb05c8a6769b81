import math

import torch
from hypothesis import given

from recollect.algo.whitening import has_spread, whiten

from .batches import Batch, batches, bounded, flags, tokens


def test_by_hand() -> None:
    # Mean of (1, 2, 3) is 2, sample standard deviation 1.
    found = whiten(tokens(1.0, 9.0, 2.0, 3.0), flags(1, 0, 1, 1), eps=0.0)
    torch.testing.assert_close(found, tokens(-1.0, 0.0, 0.0, 1.0))


def test_without_spread_nothing_is_scaled() -> None:
    equal = torch.full((3,), 0.1)
    everything = flags(1, 1, 1)
    assert whiten(equal, everything).tolist() == [0.0, 0.0, 0.0]
    assert whiten(tokens(5.0), flags(1)).tolist() == [0.0]
    assert whiten(tokens(5.0, 6.0), flags(0, 0)).tolist() == [0.0, 0.0]
    assert whiten(tokens(), flags()).tolist() == []


def test_what_is_masked_does_not_matter() -> None:
    found = whiten(tokens(1.0, math.nan, 3.0), flags(1, 0, 1))
    torch.testing.assert_close(found, tokens(-(0.5**0.5), 0.0, 0.5**0.5), atol=1e-7, rtol=0)


def test_has_spread() -> None:
    assert has_spread(tokens(1.0, 2.0), flags(1, 1))
    assert not has_spread(tokens(1.0, 2.0), flags(1, 0))
    assert not has_spread(tokens(1.0, 1.0), flags(1, 1))
    assert not has_spread(tokens(), flags())


def test_gradient() -> None:
    mask = flags(1, 1, 0, 1)
    values = tokens(0.3, -1.0, 2.0, 0.5, grad=True)
    assert torch.autograd.gradcheck(lambda x: whiten(x, mask), values)


@bounded
@given(batches)
def test_mean_zero_and_variance_one(batch: Batch) -> None:
    found = whiten(batch.logprobs.detach(), batch.mask)
    inside = found[batch.mask]
    assert torch.isfinite(found).all()
    assert (found[~batch.mask] == 0).all()
    if inside.numel() > 1:
        torch.testing.assert_close(inside.mean(), tokens(0.0).squeeze(), atol=1e-9, rtol=0)
        torch.testing.assert_close(inside.std(), tokens(1.0).squeeze(), atol=1e-6, rtol=0)

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recollect.algo.surrogate import clipped_objective, constant_inside, diagnose, score

from .batches import Batch, batches, bounded, flags, gradient, shares, tokens


def chain(ratio: float, advantage: float, low: float, high: float, dual: float | None) -> float:
    """The published chain of max, clamp and min, as a loss; the closed form must equal it."""
    plain = -advantage * ratio
    clipped = -advantage * min(max(ratio, 1 - low), 1 + high)
    loss = max(plain, clipped)
    return min(loss, -advantage * dual) if dual is not None and advantage < 0 else loss


@bounded
@given(
    st.floats(-6, 6),
    st.floats(-3, 3),
    st.floats(0, 1),
    st.floats(0, 2),
    st.one_of(st.none(), st.floats(1.01, 5)),
)
def test_the_closed_form_is_the_published_chain(
    drift: float, advantage: float, low: float, high: float, dual: float | None
) -> None:
    objective, _ = clipped_objective(
        tokens(drift), tokens(advantage), flags(1), low=low, high=high, dual=dual
    )
    reference = chain(math.exp(drift), advantage, low, high, dual)
    assert objective.item() == pytest.approx(-reference, abs=1e-9)


def test_flags_by_hand() -> None:
    ratios = tokens(1.1, 2.0, 0.5, 2.0, 0.5, 5.0, 9.0)
    advantages = tokens(1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0)
    mask = flags(1, 1, 1, 1, 1, 1, 0)
    objective, found = clipped_objective(
        ratios.log(), advantages, mask, low=0.2, high=0.28, dual=3.0
    )
    torch.testing.assert_close(objective, tokens(1.1, 1.28, 0.5, -2.0, -0.8, -3.0, 0.0))
    assert found.clipped_high.tolist() == [False, True, False, False, False, False, False]
    assert found.clipped_low.tolist() == [False, False, False, False, True, False, False]
    assert found.clipped_dual.tolist() == [False, False, False, False, False, True, False]
    torch.testing.assert_close(found.weights, tokens(1.1, 0.0, 0.5, 2.0, 0.0, 0.0, 0.0))
    assert shares(found).cut == pytest.approx(3 / 6)
    assert shares(found).high == pytest.approx(1 / 6)
    assert shares(found).low == pytest.approx(1 / 6)
    assert shares(found).dual == pytest.approx(1 / 6)
    assert shares(found).weight == pytest.approx(3.6 / 6)


def test_bounds_keep_the_precision_of_the_tensors() -> None:
    objective, _ = clipped_objective(
        tokens(5.0), tokens(1.0), flags(1), low=0.2, high=0.28, dual=None
    )
    assert objective.item() == 1.28
    assert objective.dtype == torch.float64


def test_finite_differences() -> None:
    # At ratios away from the kinks 0.8, 1.28 and 3.
    drift = tokens(1.1, 2.0, 0.5, 2.0, 0.5, 5.0).log().requires_grad_()
    advantages = tokens(1.0, 2.0, 0.5, -1.0, -2.0, -0.5)
    everything = flags(1, 1, 1, 1, 1, 1)

    def objective(x: Tensor) -> Tensor:
        return clipped_objective(x, advantages, everything, low=0.2, high=0.28, dual=3.0)[0]

    assert torch.autograd.gradcheck(objective, drift)


def test_wrong_bounds() -> None:
    one, mask = tokens(0.0), flags(1)
    with pytest.raises(ValueError, match=r"low must be in \[0, 1\]"):
        clipped_objective(one, one, mask, low=1.5, high=0.2, dual=None)
    with pytest.raises(ValueError, match="high must be in"):
        clipped_objective(one, one, mask, low=0.2, high=-0.2, dual=None)
    with pytest.raises(ValueError, match="dual must be greater than 1, got 1"):
        clipped_objective(one, one, mask, low=0.2, high=0.2, dual=1.0)


def test_score_is_one_with_the_gradient_of_its_argument() -> None:
    drift = tokens(-3.0, 0.0, 7.0, grad=True)
    found = score(drift)
    assert found.tolist() == [1.0, 1.0, 1.0]
    assert gradient(found.sum(), drift).tolist() == [1.0, 1.0, 1.0]


def test_constants_are_constant_and_masked() -> None:
    advantages = tokens(1.0, math.nan, grad=True)
    found = constant_inside(advantages, flags(1, 0))
    assert found.tolist() == [1.0, 0.0]
    assert not found.requires_grad


def test_no_tokens_give_fractions_of_zero() -> None:
    found = diagnose(tokens(), flags())
    assert shares(found).cut == 0.0
    assert shares(found).weight == 0.0
    masked = diagnose(tokens(5.0), flags(0), high=flags(1), low=flags(1), dual=flags(1))
    assert shares(masked).cut == 0.0
    assert masked.weights.tolist() == [0.0]


@bounded
@given(batches)
def test_never_more_than_the_unclipped_objective(batch: Batch) -> None:
    drift = (batch.logprobs - batch.behaviour).detach().clamp(-20, 20)
    objective, found = clipped_objective(
        drift, batch.advantages, batch.mask, low=0.2, high=0.28, dual=None
    )
    plain = torch.where(batch.mask, batch.advantages * drift.exp(), 0.0)
    assert (objective <= plain + 1e-9 * plain.abs()).all()
    assert 0.0 <= shares(found).cut <= 1.0

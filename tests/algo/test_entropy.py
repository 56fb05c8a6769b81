import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recollect.algo.entropy import entropy

from .batches import bounded


@bounded
@given(st.lists(st.floats(-80, 80, width=32), min_size=1, max_size=30))
def test_without_ruled_out_tokens_it_is_the_plain_sum_to_the_last_bit(values: list[float]) -> None:
    """Runs must not change in the last bit: value and gradient are those of the formula."""
    found, plain = (
        torch.tensor(values, requires_grad=True),
        torch.tensor(values, requires_grad=True),
    )
    logprobs, same = torch.log_softmax(found, -1), torch.log_softmax(plain, -1)
    ours, formula = entropy(logprobs, logprobs.exp()), -(same.exp() * same).sum(dim=-1)
    assert torch.equal(ours, formula)
    ours.backward()
    formula.backward()
    assert found.grad is not None
    assert plain.grad is not None
    assert torch.equal(found.grad, plain.grad)


def test_a_ruled_out_token_adds_nothing_to_it_nor_to_its_gradient() -> None:
    """Where a model masks tokens, 0 times -inf would be no number and end the run."""
    logits = torch.tensor([[0.5, -math.inf, -1.0], [0.0, 1.0, 2.0]], requires_grad=True)
    logprobs = torch.log_softmax(logits, dim=-1)
    found = entropy(logprobs, logprobs.exp())
    found.sum().backward()
    bare = torch.tensor([0.5, -1.0], requires_grad=True)
    left = torch.log_softmax(bare, dim=-1)
    alone = -(left.exp() * left).sum()
    alone.backward()
    assert found[0].item() == pytest.approx(alone.item())
    assert logits.grad is not None
    assert bare.grad is not None
    assert logits.grad[0, 1] == 0
    torch.testing.assert_close(logits.grad[0, [0, 2]], bare.grad)
    assert torch.isfinite(logits.grad).all()


def test_what_is_no_number_stays_none() -> None:
    logprobs = torch.log_softmax(torch.tensor([0.0, math.inf]), dim=-1)
    assert entropy(logprobs, logprobs.exp()).isnan()

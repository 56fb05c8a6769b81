import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recollect.algo.kl import Estimator, estimate, k1, k2, k3, kl_loss, kl_penalty, moved
from recollect.proof import enumerable

from .batches import Batch, batches, bounded, flags, gradient, tokens
from .score_gradient import score_gradient

ESTIMATORS: list[Estimator] = ["k1", "k2", "k3"]


def test_by_hand() -> None:
    # d = log 2: k1 = log 2, k2 = log^2 2 / 2, k3 = 1/2 - 1 + log 2.
    new, ref = tokens(math.log(0.5)), tokens(math.log(0.25))
    assert k1(new, ref).item() == pytest.approx(math.log(2))
    assert k2(new, ref).item() == pytest.approx(math.log(2) ** 2 / 2)
    assert k3(new, ref).item() == pytest.approx(math.log(2) - 0.5)


def test_loss_shows_one_estimator_and_differentiates_another() -> None:
    new, ref, mask = tokens(-1.0, -2.0, -3.0, grad=True), tokens(-1.5, -1.0, 0.0), flags(1, 1, 0)
    d = tokens(0.5, -1.0)
    loss = kl_loss(new, ref, mask)
    torch.testing.assert_close(loss[:2], torch.exp(-d) - 1 + d)
    assert loss[2].item() == 0.0
    torch.testing.assert_close(gradient(loss.sum(), new), tokens(0.5, -1.0, 0.0))
    published = kl_loss(new, ref, mask, gradient="k3")
    torch.testing.assert_close(published, loss)
    expected = tokens(1 - math.exp(-0.5), 1 - math.e, 0.0)
    torch.testing.assert_close(gradient(published.sum(), new), expected)


def test_how_far_the_policy_has_moved_is_measured_on_the_samplers_tokens() -> None:
    sampler, now = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.3, 0.5]).double()
    true = (sampler * (sampler / now).log()).sum()
    torch.testing.assert_close((sampler * moved((now / sampler).log())).sum(), true)
    assert torch.isfinite(moved(tokens(1e4, -1e4))).all()


def test_the_penalty_is_a_constant() -> None:
    new, ref = tokens(-1.0, -2.0, grad=True), tokens(-1.5, -1.0)
    found = kl_penalty(new, ref, flags(1, 0))
    assert found.tolist() == [0.5, 0.0]
    assert not found.requires_grad


def test_k3_stays_finite_where_the_policy_left_the_reference() -> None:
    new = torch.tensor([-500.0, 0.0], requires_grad=True)
    loss = kl_loss(new, torch.tensor([0.0, -500.0]), flags(1, 1), gradient="k3").sum()
    assert torch.isfinite(loss)
    slope = gradient(loss, new)
    assert torch.isfinite(slope).all()
    assert slope[0] < 0 < slope[1]  # back to the reference, from however far


def test_wrong_arguments() -> None:
    one, mask = tokens(-1.0), flags(1)
    with pytest.raises(ValueError, match="k1's is 0 on average"):
        kl_loss(one, one, mask, gradient="k1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="estimator must be"):
        kl_penalty(one, one, mask, estimator="k4")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"reference_logprobs\[2\]"):
        k1(one, tokens(-1.0, -1.0))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_finite_differences(name: Estimator) -> None:
    ref = tokens(-1.5, -1.0, -0.2)
    assert torch.autograd.gradcheck(
        lambda x: estimate(x, ref, name), tokens(-1.0, -2.0, -0.2, grad=True)
    )


@bounded
@given(batches)
def test_signs_and_finiteness(batch: Batch) -> None:
    new, ref, _, mask = batch.arguments
    for name in ESTIMATORS:
        found = kl_penalty(new, ref, mask, estimator=name)
        assert torch.isfinite(found).all()
        assert (found[~mask] == 0).all()
    assert (k2(new, ref) >= 0).all()
    assert (k3(new, ref) >= -1e-12).all()
    assert (kl_penalty(ref, ref, mask, estimator="k3") == 0).all()


def one_token(theta: Tensor, ref: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return theta.log_softmax(0), ref.log_softmax(0), torch.ones(4, dtype=torch.bool)


@bounded
@given(st.integers(0, 10_000))
def test_exact_values_and_gradients_on_one_token(seed: int) -> None:
    """Expectations over all four actions: which estimator is unbiased in what."""
    generator = torch.Generator().manual_seed(seed)
    theta, ref, other = torch.randn(3, 4, generator=generator, dtype=torch.float64).unbind()
    theta.requires_grad_()
    new, old, mask = one_token(theta, ref)
    policy = new.exp().detach()
    reverse = (new.exp() * (new - old)).sum()
    forward = (old.exp() * (old - new)).sum()

    torch.testing.assert_close((policy * k1(new, old)).sum(), reverse)
    torch.testing.assert_close((policy * k3(new, old)).sum(), reverse)

    def as_loss(weights: Tensor, **choice: str) -> Tensor:
        loss = kl_loss(new, old, mask, **choice)  # type: ignore[arg-type]
        return enumerable.gradient((weights * loss).sum(), theta)

    def in_reward(name: Estimator) -> Tensor:
        penalty = kl_penalty(new, old, mask, estimator=name)
        return enumerable.gradient((policy * penalty * new).sum(), theta)

    true, mirrored = enumerable.gradient(reverse, theta), enumerable.gradient(forward, theta)
    torch.testing.assert_close(as_loss(policy), true)
    torch.testing.assert_close(as_loss(policy, value="k1"), true)
    torch.testing.assert_close(as_loss(policy, gradient="k3"), mirrored)
    zero = enumerable.gradient((policy * k1(new, old)).sum(), theta)
    torch.testing.assert_close(zero, torch.zeros_like(zero))
    torch.testing.assert_close(in_reward("k1"), true)
    torch.testing.assert_close(in_reward("k3"), true - mirrored)

    # Sampled by another policy it is not right without the ratio: stored tokens stay out.
    behaviour = other.log_softmax(0).exp()
    assert not torch.allclose(as_loss(behaviour), true)
    torch.testing.assert_close(as_loss(behaviour * (policy / behaviour)), true)


def test_over_several_tokens_only_the_reward_sees_later_consequences() -> None:
    theta, ref = enumerable.parameters(0), enumerable.parameters(1)
    new, old = enumerable.token_logprobs(theta), enumerable.token_logprobs(ref).detach()
    mask = enumerable.EVERYTHING
    rows = enumerable.row_probabilities(theta)
    drift = enumerable.row_logprobs(theta) - enumerable.row_logprobs(ref).detach()
    true = enumerable.gradient((rows * drift).sum(), theta)

    penalty = kl_penalty(new, old, mask)
    of_row = penalty.view(-1, 2).sum(1)
    in_reward = score_gradient(theta, rows * of_row)
    torch.testing.assert_close(in_reward, true)

    as_loss = enumerable.gradient(enumerable.expected(kl_loss(new, old, mask), theta), theta)
    # The second token's parameters agree; the first token's miss its effect on the second.
    torch.testing.assert_close(as_loss[4:], true[4:])
    assert not torch.allclose(as_loss[:4], true[:4], rtol=0.05)

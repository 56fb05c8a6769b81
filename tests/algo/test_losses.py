import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from torch import Tensor

from recollect.algo import losses
from recollect.algo.aggregation import contributions
from recollect.algo.ratios import MAX_LOG_RATIO
from recollect.algo.rows import Rows, row_means, spread
from recollect.algo.surrogate import TokenDiagnostics

from .batches import Batch, batches, bounded, flags, gradient, shares, tokens

Loss = Callable[[Batch], tuple[Tensor, TokenDiagnostics]]


def over(loss: Callable[..., tuple[Tensor, TokenDiagnostics]], with_rows: bool = False) -> Loss:
    def run(batch: Batch) -> tuple[Tensor, TokenDiagnostics]:
        return loss(*batch.arguments, batch.rows) if with_rows else loss(*batch.arguments)

    return run


LOSSES: dict[str, Loss] = {
    "reinforce": lambda b: losses.reinforce(b.logprobs, b.advantages, b.mask),
    "importance_weighted": over(losses.importance_weighted),
    "ppo_clip": over(losses.ppo_clip),
    "dapo": over(partial(losses.ppo_clip, low=0.2, high=0.28, dual=3.0)),
    "gspo": over(losses.gspo, with_rows=True),
    "cispo": over(partial(losses.cispo, high=1.0)),
    "topr": over(losses.topr, with_rows=True),
}


def one(ratio: float, advantage: float) -> Batch:
    behaviour = tokens(-1.0)
    new = (behaviour + math.log(ratio)).requires_grad_()
    return Batch(new, behaviour, tokens(advantage), flags(1), Rows.from_lengths([1]))


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss"),
    [(2.0, 1.0, -1.28), (0.5, -1.0, 0.8), (5.0, -1.0, 3.0), (0.5, 1.0, -0.5), (1.1, -1.0, 1.1)],
)
def test_golden_clip(ratio: float, advantage: float, loss: float) -> None:
    found, _ = LOSSES["dapo"](one(ratio, advantage))
    assert found.item() == pytest.approx(loss)


def test_dual_clip_only_bounds_what_got_likelier_and_is_bad() -> None:
    plain, _ = LOSSES["ppo_clip"](one(50.0, -1.0))
    dual, found = LOSSES["dapo"](one(50.0, -1.0))
    assert plain.item() == pytest.approx(50.0)
    assert dual.item() == pytest.approx(3.0)
    assert shares(found).dual == 1.0
    assert shares(LOSSES["dapo"](one(50.0, 1.0))[1]).dual == 0.0


def test_clip_higher_lets_unlikely_tokens_grow() -> None:
    batch = one(1.25, 1.0)
    tight, _ = losses.ppo_clip(*batch.arguments, low=0.2, high=0.2)
    higher, _ = losses.ppo_clip(*batch.arguments, low=0.2, high=0.28)
    assert gradient(tight.sum(), batch.logprobs).item() == 0.0
    assert gradient(higher.sum(), batch.logprobs).item() == pytest.approx(-1.25)


def test_reinforce_by_hand() -> None:
    new = tokens(-1.0, -2.0, -3.0, grad=True)
    loss, found = losses.reinforce(new, tokens(0.5, -1.0, 9.0), flags(1, 1, 0))
    torch.testing.assert_close(loss, tokens(-0.5, 1.0, 0.0))
    torch.testing.assert_close(gradient(loss.sum(), new), tokens(-0.5, 1.0, 0.0))
    assert shares(found).weight == 1.0


def test_importance_weighted_by_hand() -> None:
    batch = one(3.0, 2.0)
    loss, _ = losses.importance_weighted(*batch.arguments)
    assert loss.item() == pytest.approx(-6.0)
    assert gradient(loss.sum(), batch.logprobs).item() == pytest.approx(-6.0)


def test_cispo_by_hand() -> None:
    # Weights are constants: 5 is cut to 2, and the token goes on training with either sign.
    for advantage in (1.0, -1.0):
        batch = one(5.0, advantage)
        loss, found = losses.cispo(*batch.arguments, high=1.0)
        assert loss.item() == pytest.approx(-2 * advantage)
        assert gradient(loss.sum(), batch.logprobs).item() == pytest.approx(-2 * advantage)
        assert shares(found).high == 1.0
    batch = one(0.1, 1.0)
    assert losses.cispo(*batch.arguments, high=1.0)[0].item() == pytest.approx(-0.1)
    loss, found = losses.cispo(*batch.arguments, high=1.0, low=0.5)
    assert loss.item() == pytest.approx(-0.5)
    assert shares(found).low == 1.0


def test_topr_by_hand() -> None:
    # Row 0 is good: weight 1 at any ratio. Row 1 is bad with ratio 1/8, row 2 is bad with ratio 6.
    rows, mask = Rows.from_lengths([2, 2, 1]), flags(1, 1, 1, 1, 1)
    old = tokens(-3.0, -3.0, -3.0, -3.0, -3.0)
    new = (old + tokens(0.01, 0.01, 0.5, 0.25, 6.0).log()).requires_grad_()
    advantages = tokens(2.0, 2.0, -1.0, -1.0, -1.0)
    loss, found = losses.topr(new, old, advantages, mask, rows)
    torch.testing.assert_close(loss, tokens(-2.0, -2.0, 0.125, 0.125, 1.0))
    expected = tokens(-2.0, -2.0, 0.125, 0.125, 1.0)
    torch.testing.assert_close(gradient(loss.sum(), new), expected)
    assert found.clipped_high.tolist() == [False, False, False, False, True]


def test_gspo_by_hand() -> None:
    # Ratios (1.21, 1.0) have the geometric mean 1.1; the second row, (0.64, 1), has 0.8.
    rows, mask = Rows.from_lengths([2, 2]), flags(1, 1, 1, 1)
    old = tokens(-2.0, -2.0, -2.0, -2.0)
    new = (old + tokens(1.21, 1.0, 0.64, 1.0).log()).requires_grad_()
    advantages = tokens(1.0, 1.0, -1.0, -1.0)
    loss, found = losses.gspo(new, old, advantages, mask, rows, low=0.1, high=0.2)
    torch.testing.assert_close(loss, tokens(-1.1, -1.1, 0.9, 0.9))
    assert found.clipped_low.tolist() == [False, False, True, True]
    torch.testing.assert_close(gradient(loss.sum(), new), tokens(-1.1, -1.1, 0.0, 0.0))


@bounded
@given(batches)
def test_gspo_equals_the_sequence_objective(batch: Batch) -> None:
    """Value and gradient of -mean_i min(s_i A_i, clip(s_i) A_i), the paper's own form."""
    loss, _ = losses.gspo(*batch.arguments, batch.rows, low=0.2, high=0.3)
    ours = contributions(loss, batch.rows, batch.mask, mode="seq-mean-token-mean").sum()
    moved = torch.where(batch.mask, batch.logprobs - batch.behaviour.detach(), 0.0)
    drift = row_means(moved, batch.rows, batch.mask).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratios = drift.exp()
    counted = torch.zeros(batch.rows.count, dtype=torch.bool)
    counted[batch.rows.index[batch.mask]] = True
    advantages = torch.zeros(batch.rows.count, dtype=torch.float64)
    advantages[batch.rows.index] = batch.advantages
    objective = torch.minimum(ratios * advantages, ratios.clamp(0.8, 1.3) * advantages)
    paper = -(objective * counted).sum() / max(batch.rows.count, 1)
    torch.testing.assert_close(ours, paper)
    # Beyond the limit of the log-ratio the paper's form, differentiated as written, stands still.
    if (drift.abs() < MAX_LOG_RATIO).all():
        torch.testing.assert_close(gradient(ours, batch.logprobs), gradient(paper, batch.logprobs))


@pytest.mark.parametrize("name", LOSSES)
@bounded
@given(batch=batches)
def test_gradient_is_the_reported_weight_times_the_advantage(name: str, batch: Batch) -> None:
    loss, found = LOSSES[name](batch)
    slope = gradient(loss.sum(), batch.logprobs)
    expected = torch.where(batch.mask, -found.weights * batch.advantages, 0.0)
    torch.testing.assert_close(slope, expected, atol=1e-12, rtol=1e-9)
    assert torch.isfinite(loss).all()
    assert (loss[~batch.mask] == 0).all()
    assert 0.0 <= shares(found).cut <= 1.0


@pytest.mark.parametrize("name", LOSSES)
@bounded
@given(batch=batches)
def test_at_ratio_one_every_loss_is_reinforce(name: str, batch: Batch) -> None:
    new = batch.behaviour.clone().requires_grad_()
    still = Batch(new, batch.behaviour, batch.advantages, batch.mask, batch.rows)
    loss, found = LOSSES[name](still)
    plain, _ = losses.reinforce(new, batch.advantages, batch.mask)
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(gradient(loss.sum(), new), gradient(plain.sum(), new))
    assert shares(found).cut == 0.0


@pytest.mark.parametrize("name", LOSSES)
@bounded
@given(batch=batches)
def test_order_of_tokens_is_irrelevant(name: str, batch: Batch) -> None:
    order = torch.arange(batch.mask.numel() - 1, -1, -1)
    flipped = Batch(
        batch.logprobs[order],
        batch.behaviour[order],
        batch.advantages[order],
        batch.mask[order],
        Rows(batch.rows.index[order], batch.rows.count),
    )
    torch.testing.assert_close(LOSSES[name](flipped)[0], LOSSES[name](batch)[0][order])


@pytest.mark.parametrize("name", ["importance_weighted", "ppo_clip", "dapo"])
def test_finite_differences(name: str) -> None:
    old = tokens(-1.0, -1.0, -1.0, -1.0, -1.0)
    new = (old + tokens(1.1, 1.9, 0.6, 3.5, 0.5).log()).requires_grad_()
    advantages, mask = tokens(1.0, -0.5, 2.0, -1.0, -1.0), flags(1, 1, 1, 1, 1)
    rows = Rows.from_lengths([5])

    def loss(x: Tensor) -> Tensor:
        return LOSSES[name](Batch(x, old, advantages, mask, rows))[0]

    assert torch.autograd.gradcheck(loss, new)


@pytest.mark.parametrize("name", LOSSES)
def test_only_the_current_log_probs_carry_gradient(name: str) -> None:
    new = tokens(-1.0, -2.0, grad=True)
    old, advantages = tokens(-1.5, -1.8, grad=True), tokens(1.0, -1.0, grad=True)
    for constant in (old, advantages):
        batch = Batch(new, old, advantages, flags(1, 1), Rows.from_lengths([2]))
        loss, _ = LOSSES[name](batch)
        assert gradient(loss.sum(), constant).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["cispo", "topr"])
def test_weights_of_cispo_and_topr_are_constants(name: str) -> None:
    # Were the weight differentiated too, the second derivative would not equal the first.
    batch = one(1.5, -1.0)
    loss, _ = LOSSES[name](batch)
    (first,) = torch.autograd.grad(loss.sum(), batch.logprobs, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), batch.logprobs)
    torch.testing.assert_close(first, second)
    assert first.item() == pytest.approx(1.5 if name == "cispo" else 1.0)


@pytest.mark.parametrize("name", LOSSES)
def test_masked_garbage_stays_out(name: str) -> None:
    new = tokens(-1.0, math.nan, -math.inf, grad=True)
    batch = Batch(
        new,
        tokens(-1.2, math.inf, -1.0),
        tokens(1.0, math.nan, -math.inf),
        flags(1, 0, 0),
        Rows.from_lengths([3]),
    )
    loss, _ = LOSSES[name](batch)
    assert torch.isfinite(loss).all()
    slope = gradient(loss.sum(), new)
    assert torch.isfinite(slope).all()
    assert slope[1:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", LOSSES)
def test_no_tokens(name: str) -> None:
    empty = torch.zeros(0)
    batch = Batch(empty.clone().requires_grad_(), empty, empty, flags(), Rows.from_lengths([0]))
    loss, found = LOSSES[name](batch)
    assert loss.tolist() == []
    assert shares(found).cut == 0.0


@pytest.mark.parametrize("name", LOSSES)
def test_wrong_shapes(name: str) -> None:
    two, three = torch.zeros(2), torch.zeros(3)
    with pytest.raises(ValueError, match=r"advantages\[3\]"):
        LOSSES[name](Batch(two, two, three, flags(1, 1), Rows.from_lengths([2])))


def test_wrong_parameters() -> None:
    batch = one(1.0, 1.0)
    with pytest.raises(ValueError, match="low must be in"):
        losses.cispo(*batch.arguments, high=1.0, low=2.0)
    with pytest.raises(ValueError, match="high must be in"):
        losses.cispo(*batch.arguments, high=-1.0)
    with pytest.raises(ValueError, match="rows"):
        losses.topr(*batch.arguments, Rows.from_lengths([3]))
    with pytest.raises(ValueError, match="rows"):
        losses.gspo(*batch.arguments, Rows.from_lengths([3]))


def test_one_advantage_per_row_spread_to_tokens() -> None:
    rows = Rows.from_lengths([1, 2])
    advantages = spread(tokens(1.0, -1.0), rows)
    loss, _ = losses.reinforce(tokens(-1.0, -1.0, -1.0), advantages, flags(1, 1, 1))
    assert loss.tolist() == [-1.0, 1.0, 1.0]

from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recollect.algo.gae import gae
from recollect.algo.rows import Rows, row_sums

from .batches import Batch, batches, bounded, flags, tokens


def returns_of(rewards: Tensor, rows: Rows, mask: Tensor, gamma: float) -> Tensor:
    """Rewards to go, discounted: what lam = 1 gives with a critic that says 0."""
    return gae(rewards, torch.zeros_like(rewards), rows, mask, gamma=gamma, lam=1.0).returns


def slow_gae(
    rewards: list[float],
    values: list[float],
    rows: list[int],
    mask: list[bool],
    gamma: float,
    lam: float,
) -> tuple[list[float], list[float]]:
    """The textbook recursion, token by token: what `gae` must equal."""
    advantages, returns = [0.0] * len(rewards), [0.0] * len(rewards)
    for row in set(rows):
        ahead, following, waiting = 0.0, 0.0, 0.0
        for t in reversed([t for t, of in enumerate(rows) if of == row]):
            waiting += rewards[t]
            if not mask[t]:
                continue
            ahead = waiting + gamma * following - values[t] + gamma * lam * ahead
            following, waiting = values[t], 0.0
            advantages[t], returns[t] = ahead, ahead + values[t]
    return advantages, returns


def test_one_turn_by_hand() -> None:
    # delta = (0 + .5 * 2 - 1, 0 + .5 * 3 - 2, 4 - 3) = (0, -.5, 1); A_t = delta_t + .25 A_{t+1}.
    rows, everything = Rows.from_lengths([3]), flags(1, 1, 1)
    found = gae(tokens(0.0, 0.0, 4.0), tokens(1.0, 2.0, 3.0), rows, everything, gamma=0.5, lam=0.5)
    torch.testing.assert_close(found.advantages, tokens(-0.0625, -0.25, 1.0))
    torch.testing.assert_close(found.returns, tokens(0.9375, 1.75, 4.0))


def test_environment_tokens_bridge_and_do_not_count() -> None:
    # Two turns with a tool's answer of three tokens between them: same as without the answer.
    mask = flags(0, 1, 0, 0, 0, 1, 1, 0)
    values = tokens(9.0, 1.0, 9.0, 9.0, 9.0, 2.0, 3.0, 9.0)
    rewards = tokens(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0)
    found = gae(rewards, values, Rows.from_lengths([8]), mask, gamma=0.5, lam=0.5)
    torch.testing.assert_close(found.advantages[mask], tokens(-0.0625, -0.25, 1.0))
    assert (found.advantages[~mask] == 0).all()
    assert (found.returns[~mask] == 0).all()


def test_a_reward_on_an_environment_token_goes_to_the_action_before_it() -> None:
    mask, rows = flags(0, 1, 0, 1, 0), Rows.from_lengths([5])
    rewards = tokens(100.0, 0.0, 2.0, 0.0, 8.0)
    returns = returns_of(rewards, rows, mask, 0.5)
    # The 100 came before the first action: nobody's merit. 2 + .5 * 8 and 8 remain.
    torch.testing.assert_close(returns, tokens(0.0, 6.0, 0.0, 8.0, 0.0))


def test_nothing_leaks_from_row_to_row() -> None:
    rows, mask = Rows.from_lengths([2, 3]), flags(1, 1, 0, 1, 1)
    rewards = tokens(0.0, 1.0, 50.0, 0.0, 3.0)
    returns = returns_of(rewards, rows, mask, 1.0)
    torch.testing.assert_close(returns, tokens(1.0, 1.0, 0.0, 3.0, 3.0))


def test_nothing_to_do() -> None:
    empty = gae(tokens(), tokens(), Rows.from_lengths([0, 0]), flags(), gamma=1.0, lam=1.0)
    assert empty.advantages.tolist() == []
    masked = gae(
        tokens(1.0, 2.0), tokens(3.0, 4.0), Rows.from_lengths([2]), flags(0, 0), gamma=1.0, lam=1.0
    )
    assert masked.advantages.tolist() == [0.0, 0.0]
    assert masked.returns.tolist() == [0.0, 0.0]


def test_masked_values_are_never_read() -> None:
    nan = float("nan")
    values, mask = tokens(1.0, nan, 2.0), flags(1, 0, 1)
    found = gae(tokens(0.0, 0.0, 1.0), values, Rows.from_lengths([3]), mask, gamma=1.0, lam=0.5)
    assert torch.isfinite(found.advantages).all()
    assert torch.isfinite(found.returns).all()


def test_wrong_arguments() -> None:
    rows, everything = Rows.from_lengths([2]), flags(1, 1)
    with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\]"):
        gae(tokens(0.0, 0.0), tokens(0.0, 0.0), rows, everything, gamma=1.1, lam=1.0)
    with pytest.raises(ValueError, match=r"rewards\[2\], values\[3\]"):
        gae(tokens(0.0, 0.0), tokens(0.0, 0.0, 0.0), rows, everything, gamma=1.0, lam=1.0)
    with pytest.raises(ValueError, match=r"rows\[3\]"):
        gae(
            tokens(0.0, 0.0),
            tokens(0.0, 0.0),
            Rows.from_lengths([3]),
            everything,
            gamma=1.0,
            lam=1.0,
        )


def test_gradient() -> None:
    rows, mask = Rows(torch.tensor([0, 1, 0, 1, 0]), 2), flags(1, 1, 0, 1, 1)
    rewards = tokens(0.1, 0.2, -0.3, 0.4, 0.5, grad=True)
    values = tokens(0.5, -0.1, 0.3, 0.2, 0.7, grad=True)

    def both(r: Tensor, v: Tensor) -> Tensor:
        found = gae(r, v, rows, mask, gamma=0.9, lam=0.8)
        return torch.cat([found.advantages, found.returns])

    assert torch.autograd.gradcheck(both, (rewards, values))


def test_credit_fades_with_gamma_lam_per_sampled_token() -> None:
    mask = flags(1, 0, 0, 1, 1)
    rewards = tokens(0.0, 0.0, 0.0, 0.0, 0.0, grad=True)
    rows = Rows.from_lengths([5])
    found = gae(rewards, torch.zeros_like(rewards), rows, mask, gamma=0.8, lam=0.5)
    (credit,) = torch.autograd.grad(found.advantages[0], rewards)
    torch.testing.assert_close(credit, tokens(1.0, 1.0, 1.0, 0.4, 0.16))


@bounded
@given(
    batches,
    st.sampled_from([0.0, 0.9, 1.0]),
    st.sampled_from([0.0, 0.95, 1.0]),
    st.randoms(use_true_random=False),
)
def test_equals_the_recursion(batch: Batch, gamma: float, lam: float, random: Random) -> None:
    # Interleave the rows: only the order inside a row matters.
    index = batch.rows.index.tolist()
    random.shuffle(index)
    rows = Rows(torch.tensor(index, dtype=torch.int64), batch.rows.count)
    rewards, values = batch.advantages, batch.behaviour
    found = gae(rewards, values, rows, batch.mask, gamma=gamma, lam=lam)
    advantages, returns = slow_gae(
        rewards.tolist(), values.tolist(), index, batch.mask.tolist(), gamma, lam
    )
    torch.testing.assert_close(found.advantages, tokens(*advantages))
    torch.testing.assert_close(found.returns, tokens(*returns))


@bounded
@given(batches)
def test_with_lam_one_the_returns_do_not_depend_on_the_critic(batch: Batch) -> None:
    rewards = batch.advantages
    found = gae(rewards, batch.behaviour, batch.rows, batch.mask, gamma=0.9, lam=1.0)
    torch.testing.assert_close(found.returns, returns_of(rewards, batch.rows, batch.mask, 0.9))


@bounded
@given(batches)
def test_undiscounted_the_first_token_sees_the_whole_reward(batch: Batch) -> None:
    everything = torch.ones_like(batch.mask)
    returns = returns_of(batch.advantages, batch.rows, everything, 1.0)
    totals = row_sums(batch.advantages, batch.rows)
    for row in range(batch.rows.count):
        inside = returns[batch.rows.index == row]
        if inside.numel():
            torch.testing.assert_close(inside[0], totals[row])


def test_a_long_row_is_exact() -> None:
    rewards = torch.zeros(5000, dtype=torch.float64)
    rewards[-1] = 1.0
    everything = torch.ones(5000, dtype=torch.bool)
    returns = returns_of(rewards, Rows.from_lengths([5000]), everything, 0.999)
    torch.testing.assert_close(returns[0].item(), 0.999**4999)

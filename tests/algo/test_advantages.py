import itertools
import math
from collections.abc import Callable
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recollect.algo import advantages
from recollect.algo.advantages import (
    Advantages,
    dr_grpo,
    grpo,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
    rloo,
    withhold,
)

from .batches import bounded, flags, gradient, tokens

# Reference §4.4: n = 8, one replayed success and s successes among 7 fresh rows, std-normalised.
GOLDEN_SUCCESS = [None, 1.620, 1.208, 0.935, 0.725, 0.540, 0.354, 0.0]
GOLDEN_FAILURE = [-0.354, -0.540, -0.725, -0.935, -1.208, -1.620, -2.475, None]
GOLDEN_REPLAY = [2.475, 1.620, 1.208, 0.935, 0.725, 0.540, 0.354, 0.0]
FRESH_ONLY = [
    (0.0, 0.0),
    (2.268, -0.378),
    (1.464, -0.586),
    (1.069, -0.802),
    (0.802, -1.069),
    (0.586, -1.464),
    (0.378, -2.268),
    (0.0, 0.0),
]

Grouped = Callable[[Tensor, Tensor], Advantages]
GROUPED: dict[str, Grouped] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
    "reinforce_plus_plus_baseline": reinforce_plus_plus_baseline,
}


def group(*labels: int) -> Tensor:
    return torch.tensor(labels, dtype=torch.int64)


def mixed_group(successes: int) -> Tensor:
    """The replayed success first, then the fresh successes, then the fresh failures: [8]."""
    return tokens(1.0, *[1.0] * successes, *[0.0] * (7 - successes))


@pytest.mark.parametrize("successes", range(8))
def test_golden_mixed_group(successes: int) -> None:
    found = grpo(mixed_group(successes), group(*[5] * 8)).values
    assert found[0].item() == pytest.approx(GOLDEN_REPLAY[successes], abs=6e-4)
    if successes > 0:
        assert found[1].item() == pytest.approx(GOLDEN_SUCCESS[successes], abs=6e-4)
    if successes < 7:
        assert found[-1].item() == pytest.approx(GOLDEN_FAILURE[successes], abs=6e-4)
    assert found[0].item() == pytest.approx(-found[1:].sum().item(), abs=1e-9)


@pytest.mark.parametrize("successes", range(8))
def test_golden_fresh_group(successes: int) -> None:
    rewards = mixed_group(successes)[1:]
    found = grpo(rewards, group(*[0] * 7)).values
    good, bad = FRESH_ONLY[successes]
    for reward, value in zip(rewards.tolist(), found.tolist(), strict=True):
        assert value == pytest.approx(good if reward else bad, abs=6e-4)


@pytest.mark.parametrize("successes", range(7))
def test_golden_without_std(successes: int) -> None:
    found = dr_grpo(mixed_group(successes), group(*[0] * 8)).values
    mean = (successes + 1) / 8
    assert found[0].item() == pytest.approx(1 - mean)
    assert found[-1].item() == pytest.approx(-mean)
    assert torch.equal(
        found, grpo(mixed_group(successes), group(*[0] * 8), divide_by_std=False).values
    )


@pytest.mark.parametrize("successes", range(8))
def test_withholding_the_replayed_success_leaves_a_net_push(successes: int) -> None:
    scored = grpo(mixed_group(successes), group(*[0] * 8))
    kept = withhold(scored, flags(1, *[0] * 7))
    assert kept.values[0].item() == 0.0
    assert not kept.signal[0]
    assert torch.equal(kept.values[1:], scored.values[1:])
    assert kept.values.sum().item() == pytest.approx(-GOLDEN_REPLAY[successes], abs=6e-4)


def test_withholding_nobody_changes_nothing() -> None:
    scored = rloo(tokens(1.0, 0.0, 0.5), group(0, 0, 0))
    kept = withhold(scored, flags(0, 0, 0))
    assert torch.equal(kept.values, scored.values)
    assert torch.equal(kept.signal, scored.signal)


def test_grpo_by_hand() -> None:
    # Group 7: mean 2, sample variance 2, so -+ 1 / sqrt 2. Group -1: mean 0.5, sd sqrt(1/3).
    rewards = tokens(1.0, 1.0, 3.0, 0.0, 1.0, 0.0)
    found = grpo(rewards, group(7, -1, 7, -1, -1, -1), eps=0.0)
    half, third = 0.5**0.5, 0.5 * 3**0.5
    torch.testing.assert_close(found.values, tokens(-half, third, half, -third, third, -third))
    assert found.signal.all()


def test_rloo_by_hand() -> None:
    # 4 against the mean of (1, 1), and each 1 against the mean of (4, 1).
    found = rloo(tokens(4.0, 1.0, 1.0), group(0, 0, 0))
    torch.testing.assert_close(found.values, tokens(3.0, -1.5, -1.5))


def test_reinforce_plus_plus_by_hand() -> None:
    found = reinforce_plus_plus(tokens(1.0, 2.0, 3.0), eps=0.0)
    torch.testing.assert_close(found.values, tokens(-1.0, 0.0, 1.0))
    assert found.signal.all()


def test_reinforce_plus_plus_baseline_by_hand() -> None:
    # Centred: (-1, 1, 0, 0); batch sample variance 2/3; the dead group counts in the scale.
    found = reinforce_plus_plus_baseline(tokens(0.0, 2.0, 5.0, 5.0), group(0, 0, 1, 1), eps=0.0)
    torch.testing.assert_close(found.values, tokens(-(1.5**0.5), 1.5**0.5, 0.0, 0.0))
    assert found.signal.tolist() == [True, True, False, False]


@pytest.mark.parametrize("name", GROUPED)
def test_no_signal(name: str) -> None:
    # A group of one, a group of equal thirds (whose mean rounds), and a live group.
    rewards = torch.tensor([0.7, 0.1, 0.1, 0.1, 1.0, 0.0])
    found = GROUPED[name](rewards, group(3, 1, 1, 1, 2, 2))
    assert found.signal.tolist() == [False, False, False, False, True, True]
    assert found.values[:4].tolist() == [0.0] * 4
    assert found.values[4] > 0 > found.values[5]


def test_no_signal_without_eps() -> None:
    assert grpo(tokens(1.0, 1.0, 5.0), group(0, 0, 1), eps=0.0).values.tolist() == [0.0] * 3


def test_no_signal_in_a_batch_of_equals() -> None:
    for rewards in (torch.full((5,), 0.1), torch.tensor([3.0])):
        found = reinforce_plus_plus(rewards)
        assert not found.signal.any()
        assert (found.values == 0).all()


@pytest.mark.parametrize("name", GROUPED)
def test_no_rows(name: str) -> None:
    found = GROUPED[name](torch.zeros(0), group())
    assert found.values.tolist() == []
    assert found.signal.tolist() == []
    assert reinforce_plus_plus(torch.zeros(0)).values.tolist() == []


@pytest.mark.parametrize("name", GROUPED)
def test_wrong_arguments(name: str) -> None:
    score = GROUPED[name]
    with pytest.raises(ValueError, match=r"rewards\[2\], groups\[3\]"):
        score(torch.zeros(2), group(0, 0, 0))
    with pytest.raises(ValueError, match="groups must be int64"):
        score(torch.zeros(2), torch.zeros(2))
    with pytest.raises(ValueError, match="rewards must be floating point"):
        score(torch.zeros(2, dtype=torch.int64), group(0, 0))
    with pytest.raises(ValueError, match="rewards must be finite: 1 of 2"):
        score(torch.tensor([1.0, math.nan]), group(0, 0))


def test_wrong_parameters() -> None:
    with pytest.raises(ValueError, match="eps"):
        grpo(torch.zeros(2), group(0, 0), eps=-1.0)
    with pytest.raises(ValueError, match="rewards must be finite"):
        reinforce_plus_plus(torch.tensor([math.inf, 0.0]))
    scored = rloo(torch.zeros(2), group(0, 0))
    with pytest.raises(ValueError, match=r"baseline_only\[1\]"):
        withhold(scored, flags(1))
    with pytest.raises(ValueError, match="must be bool"):
        withhold(scored, torch.zeros(2))


@pytest.mark.parametrize("name", GROUPED)
def test_gradient_in_the_rewards(name: str) -> None:
    # The last group is dead: perturbing it numerically would revive it, so it is held fixed.
    labels = group(0, 1, 0, 1, 0, 9)
    rewards = tokens(0.3, 1.0, -0.5, 0.2, 0.9, grad=True)

    def score(x: Tensor) -> Tensor:
        return GROUPED[name](torch.cat([x, x.new_ones(1)]), labels).values

    assert torch.autograd.gradcheck(score, rewards)
    assert torch.autograd.gradcheck(lambda x: reinforce_plus_plus(x).values, rewards)


def test_a_dead_group_has_gradient_zero_not_nan() -> None:
    rewards = tokens(1.0, 1.0, 1.0, grad=True)
    found = grpo(rewards, group(0, 0, 0)).values
    assert gradient(found.sum(), rewards).tolist() == [0.0, 0.0, 0.0]


reward_lists = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 0.1, -2.5, 1e6, 1e-7]), st.integers(-2, 3)), max_size=40
)


@pytest.mark.parametrize("name", GROUPED)
@bounded
@given(pairs=reward_lists)
def test_each_group_sums_to_zero(name: str, pairs: list[tuple[float, int]]) -> None:
    rewards = tokens(*[reward for reward, _ in pairs])
    labels = group(*[label for _, label in pairs])
    found = GROUPED[name](rewards, labels)
    assert torch.isfinite(found.values).all()
    for label in set(labels.tolist()):
        inside = labels == label
        scale = max(1.0, found.values[inside].abs().max().item())
        assert abs(found.values[inside].sum().item()) < 1e-8 * scale
        distinct = len(set(rewards[inside].tolist()))
        assert found.signal[inside].tolist() == [distinct > 1] * int(inside.sum())


@pytest.mark.parametrize("name", GROUPED)
@bounded
@given(pairs=reward_lists, random=st.randoms(use_true_random=False))
def test_rows_may_stand_anywhere(name: str, pairs: list[tuple[float, int]], random: Random) -> None:
    order = list(range(len(pairs)))
    random.shuffle(order)
    rewards = tokens(*[reward for reward, _ in pairs])
    labels = group(*[label for _, label in pairs])
    straight = GROUPED[name](rewards, labels)
    shuffled = GROUPED[name](rewards[order], labels[order])
    torch.testing.assert_close(shuffled.values, straight.values[order], atol=1e-8, rtol=1e-8)
    assert torch.equal(shuffled.signal, straight.signal[order])
    # Names of groups carry no meaning.
    renamed = GROUPED[name](rewards, labels * -1000 + 3)
    torch.testing.assert_close(renamed.values, straight.values, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_group_size_is_finite(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    for size in range(65):
        labels = torch.zeros(size, dtype=torch.int64)
        coin = torch.randint(0, 2, (size,), generator=generator).to(dtype)
        for rewards in (coin, torch.full((size,), 0.1, dtype=dtype)):
            found = GROUPED[name](rewards, labels)
            assert found.values.shape == (size,)
            assert torch.isfinite(found.values).all()
            assert bool(found.signal.any()) == (len(set(rewards.tolist())) > 1)


@bounded
@given(st.lists(st.floats(-10, 10), min_size=2, max_size=20), st.floats(0.5, 100), st.floats(-5, 5))
def test_std_normalisation_ignores_scale_and_shift(
    rewards: list[float], scale: float, shift: float
) -> None:
    base, labels = tokens(*rewards), torch.zeros(len(rewards), dtype=torch.int64)
    if base.std() < 1e-2:
        return
    torch.testing.assert_close(
        grpo(base * scale + shift, labels, eps=0.0).values,
        grpo(base, labels, eps=0.0).values,
        atol=1e-8,
        rtol=1e-8,
    )


@pytest.mark.parametrize("size", [2, 3])
def test_expected_gradient_over_all_groups(size: int) -> None:
    """Enumerate every group of `size` draws from a softmax over four actions.

    RLOO's expected gradient is the policy gradient; subtracting the group mean, which contains the
    row itself, gives (n - 1) / n of it.
    """
    theta = tokens(0.3, -0.8, 1.1, 0.0, grad=True)
    rewards = tokens(1.0, 0.0, 0.3, -2.0)
    logprobs = theta.log_softmax(0)
    (truth,) = torch.autograd.grad((logprobs.exp() * rewards).sum(), theta, retain_graph=True)

    def expected(score: Grouped) -> Tensor:
        total = torch.zeros(())
        for actions in itertools.product(range(4), repeat=size):
            drawn = torch.tensor(actions)
            probability = logprobs[drawn].sum().exp().detach()
            values = score(rewards[drawn], torch.zeros(size, dtype=torch.int64)).values
            total = total + probability * (values * logprobs[drawn]).sum() / size
        (found,) = torch.autograd.grad(total, theta, retain_graph=True)
        return found

    torch.testing.assert_close(expected(rloo), truth)
    torch.testing.assert_close(expected(dr_grpo), truth * (size - 1) / size)
    assert not torch.allclose(expected(grpo), truth, rtol=0.05)


def test_the_reward_itself() -> None:
    """Compared with nothing: A = r, and a reward of 0 says nothing."""
    found = advantages.reward(torch.tensor([1.0, 0.0, -0.5]))
    assert found.values.tolist() == [1.0, 0.0, -0.5]
    assert found.signal.tolist() == [True, False, True]

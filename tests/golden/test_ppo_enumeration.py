"""PPO's parts on a decision process small enough to enumerate: exact values, no sampling.

The process is that of `algo.enumerable`: two tokens, four choices each, sixteen episodes with one
reward each. Its true values are sums over what may follow.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from recollect.algo.losses import importance_weighted
from recollect.proof.enumerable import (
    EVERYTHING,
    ROWS,
    expected,
    gradient,
    parameters,
    policy_gradient,
    rewards,
    row_probabilities,
    token_logprobs,
)
from recollect.replay.policy import Amounts
from recollect.replay.sampling import inclusion
from recollect.replay.weights import Weighing, largest_weight, priority_weights
from recollect.train.credit import Credit, credit
from replay.pools import TASKS, Plant, make_replayer, planted

Floats = NDArray[np.float64]
SEEDS = range(3)


def true_values(theta: torch.Tensor, worth: torch.Tensor) -> tuple[float, Floats]:
    """Value before the first token, and before the second after each first: sums over futures."""
    chances = row_probabilities(theta).detach().numpy().reshape(4, 4)
    worths = worth.numpy().reshape(4, 4)
    second = (chances * worths).sum(axis=1) / chances.sum(axis=1)
    return float((chances * worths).sum()), second


def credits_with(values: tuple[float, Floats], worth: torch.Tensor, lam: float) -> list[Credit]:
    """Credit all sixteen episodes, given a critic that says these values."""
    first, second = values
    each = [np.array([first, second[row // 4]], "f4") for row in range(16)]
    return credit(worth.tolist(), each, None, gamma=1.0, lam=lam)


def flat(found: list[Credit], name: str) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([getattr(c, name) for c in found])).double()


@pytest.mark.parametrize("lam", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_with_true_values_advantages_are_true_on_average(seed: int, lam: float) -> None:
    """E[A_t given state and token] = Q - V and E[G_t given state] = V, whatever lambda is."""
    theta, worth = parameters(seed), rewards(seed)
    v0, v1 = true_values(theta, worth)
    found = credits_with((v0, v1), worth, lam)
    chances = row_probabilities(theta).detach().numpy().reshape(4, 4)
    after = chances / chances.sum(axis=1, keepdims=True)  # of a second token, given the first
    raw = flat(found, "raw").numpy().reshape(4, 4, 2)
    returns = flat(found, "returns").numpy().reshape(4, 4, 2)
    assert (after * raw[:, :, 0]).sum(axis=1) == pytest.approx(v1 - v0, abs=1e-6)
    assert raw[:, :, 1] == pytest.approx(worth.numpy().reshape(4, 4) - v1[:, None], abs=1e-6)
    assert (chances * returns[:, :, 0]).sum() == pytest.approx(v0, abs=1e-6)
    assert (after * returns[:, :, 1]).sum(axis=1) == pytest.approx(v1, abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_value_targets_by_lambda(seed: int) -> None:
    """Lambda 1 teaches the reward itself; lambda 0 the next value, or the reward at the end."""
    worth, wrong = rewards(seed), (0.25, np.array([1.0, -1.0, 0.5, 2.0]))
    whole = flat(credits_with(wrong, worth, 1.0), "returns").reshape(16, 2)
    torch.testing.assert_close(whole, worth[:, None].expand(16, 2), atol=1e-6, rtol=0)
    near = flat(credits_with(wrong, worth, 0.0), "returns").reshape(16, 2)
    following = torch.from_numpy(np.repeat(wrong[1], 4))
    torch.testing.assert_close(near, torch.stack([following, worth], dim=1), atol=1e-6, rtol=0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("lam", "knows", "exact"), [(0.3, True, True), (1.0, False, True),
                                                     (0.3, False, False)])  # fmt: skip
def test_when_the_expected_gradient_is_the_policy_gradient(
    seed: int, lam: float, knows: bool, exact: bool
) -> None:
    """With true values at any lambda, or with any values at lambda 1; not with neither."""
    theta, worth = parameters(seed), rewards(seed)
    wrong = (0.3, np.array([2.0, -1.0, 0.0, 1.0]))
    found = credits_with(true_values(theta, worth) if knows else wrong, worth, lam)
    logprobs = token_logprobs(theta)
    advantages = flat(found, "raw")
    losses, _ = importance_weighted(logprobs, logprobs.detach(), advantages, EVERYTHING)
    mine = -gradient(expected(losses, theta), theta)
    gap = float((mine - policy_gradient(theta, worth)).abs().max())
    assert gap < 1e-6 if exact else gap > 1e-3


# -- the draw: probabilities, weights, and the gradient they give together ------------------


def stored_priorities(seed: int) -> Floats:
    theta, worth = parameters(seed), rewards(seed)
    found = credits_with(true_values(theta, worth), worth, 0.95)
    return np.array([c.priority("advantage") for c in found])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_probabilities_are_those_of_the_priorities(alpha: float) -> None:
    """p_i = priority_i^alpha / sum, through the store and the replayer, for a draw of one."""
    given = np.array([1.0, 2.0, 3.0, 4.0])
    plants = [Plant(TASKS[n], advantage=0.5, priority=p) for n, p in enumerate(given)]
    expected_p = given**alpha / (given**alpha).sum()
    weights = 1 / (4 * expected_p)
    seen = {}
    with planted(*plants) as store:
        amounts = Amounts(buffer_updates=1, buffer_rows=1, beta=1.0, weight_scale="off")
        for seed in range(60):
            replayer = make_replayer(store, amounts, weighing=Weighing("stored", alpha), seed=seed)
            replayer.begin(1, 10, 1)
            ((pick,),) = replayer.buffer()
            seen[int(pick.trajectory.id.removeprefix("row-"))] = (pick.probability, pick.weight)
    assert set(seen) == {0, 1, 2, 3}
    for row, (probability, weight) in seen.items():
        assert probability == pytest.approx(expected_p[row])
        assert weight == pytest.approx(weights[row])


def drawn_gradient(seed: int, count: int, beta: float, scale: str) -> tuple[Floats, Floats]:
    """Expected gradient of a weighted draw of the sixteen rows, and that of all of them.

    The expectation is exact: row i is in a draw with probability pi_i, whoever else is.
    """
    theta, worth = parameters(seed), rewards(seed)
    advantages = flat(credits_with(true_values(theta, worth), worth, 0.95), "raw")
    logprobs = token_logprobs(theta)
    each = np.stack(
        [
            gradient((advantages * logprobs * (ROWS.index == row)).sum(), theta).numpy()
            for row in range(16)
        ]
    )
    chances = inclusion(stored_priorities(seed) ** 0.6, count)
    divisor = 1.0 if scale == "off" else largest_weight(chances, count, beta)
    # Weights do not depend on who else was drawn, so those of all rows can be had at once.
    weights = np.array([priority_weights(np.full(count, c), 16, beta, divisor)[0] for c in chances])
    found = (chances[:, None] * weights[:, None] * each).sum(axis=0) / count
    return found * divisor, each.mean(axis=0)


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("scale", ["off", "pool"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_biased_draw_with_its_weights_gives_the_unbiased_gradient(
    seed: int, count: int, scale: str
) -> None:
    found, truth = drawn_gradient(seed, count, 1.0, scale)
    assert found == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_weights_the_draw_is_biased_and_beta_mends_it(seed: int) -> None:
    gaps = []
    for beta in (0.0, 0.4, 0.8, 1.0):
        found, truth = drawn_gradient(seed, 3, beta, "off")
        gaps.append(float(np.abs(found - truth).max()))
    assert gaps[0] > 1e-3
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-12


def test_beta_grows_to_one_and_the_replayer_follows() -> None:
    """0.4 in the first step with replay, 0.25 more in each, 1 at most; then weights are full."""
    plants = [Plant(TASKS[n], advantage=1.0, priority=p) for n, p in enumerate((1.0, 1.0, 2.0))]
    betas = []
    with planted(*plants) as store:
        amounts = Amounts(
            buffer_updates=1, buffer_rows=1, beta=0.4, beta_growth=0.25, weight_scale="off"
        )
        replayer = make_replayer(store, amounts, weighing=Weighing("stored", 1.0))
        for step in range(3, 8):
            replayer.begin(step, 10, step)
            ((pick,),) = replayer.buffer()
            # (3 p)^-beta = weight, with p = 1/4 or 1/2.
            betas.append(-np.log(pick.weight) / np.log(3 * pick.probability))
    assert betas == pytest.approx([0.4, 0.65, 0.9, 1.0, 1.0])

"""Every correction at every level, in expectation, on a policy small enough to enumerate.

`tests/algo/test_estimators.py` has the claims of each correction where they are exact. Here all
kinds and levels go through the settings and the function that the learner calls, against the
table in the docstring of `algo/corrections.py`, computed with numpy from the definition.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from algo.enumerable import (
    EVERYTHING,
    ROWS,
    expected,
    gradient,
    parameters,
    policy_gradient,
    rewards,
    token_logprobs,
)
from recollect.algo.rows import Rows, spread
from recollect.train.objective import replayed_losses
from train.small import make_config

Floats = NDArray[np.float64]

# Gradient weight g of a token with ratio r and advantage A; settings as below.
PULLS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "weight": lambda r, a: r,
    "clip": lambda r, a: np.where(a >= 0, r * (r < 1.3), r * ((r > 0.8) & (r < 2.5))),
    "shape": lambda r, a: 0.2 * r / (r + 0.2) ** 2,
    "truncate": lambda r, a: np.minimum(r, 1.5),
    "mask": lambda r, a: r * ((r >= 0.6) & (r <= 1.6)),
}
SETTINGS = ("clip_high=0.3", "dual_clip=2.5", "shape_beta=0.2", "cap=1.5", "band_low=0.6",
            "band_high=1.6")  # fmt: skip
LEVELS = ("token", "geometric", "sequence")


def corrected(kind: str, level: str, seed: int) -> tuple[torch.Tensor, ...]:
    """Gradient that is expected when the older policy samples; theta, behaviour and rewards."""
    theta = parameters(seed)
    behaviour = parameters(seed + 1, 0.6, around=theta)
    worth = rewards(seed)
    flags = [f"correction.{flag}" for flag in (f"kind={kind}", f"level={level}", *SETTINGS)]
    correction = make_config(Path("m"), *flags).correction
    losses, _ = replayed_losses(
        correction,
        token_logprobs(theta),
        token_logprobs(behaviour).detach(),
        spread(worth, ROWS),
        EVERYTHING,
        ROWS,
    )
    return -gradient(expected(losses, behaviour), theta), theta, behaviour, worth


def documented(kind: str, level: str, theta: torch.Tensor, behaviour: torch.Tensor, worth):
    """sum over rows mu(y) A(y) sum over tokens g(r) grad log pi(token), written out."""
    logprobs = token_logprobs(theta)
    drift = (logprobs - token_logprobs(behaviour)).detach().numpy().reshape(16, 2)
    if level == "geometric":
        drift = np.repeat(drift.mean(axis=1, keepdims=True), 2, axis=1)
    if level == "sequence":
        drift = np.repeat(drift.sum(axis=1, keepdims=True), 2, axis=1)
    advantages = np.repeat(worth.numpy()[:, None], 2, axis=1)
    mu = np.exp(token_logprobs(behaviour).detach().numpy().reshape(16, 2).sum(axis=1))
    pull = mu[:, None] * advantages * PULLS[kind](np.exp(drift), advantages)
    return gradient((torch.from_numpy(pull).flatten() * logprobs).sum(), theta)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", PULLS)
def test_the_documented_gradient(kind: str, level: str, seed: int) -> None:
    found, *case = corrected(kind, level, seed)
    torch.testing.assert_close(found, documented(kind, level, *case), atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_which_one_is_the_policy_gradient(seed: int) -> None:
    """The whole row's ratio, unbounded; nothing else is, by a margin that is no rounding."""
    for kind in PULLS:
        for level in LEVELS:
            found, theta, _, worth = corrected(kind, level, seed)
            gap = float((found - policy_gradient(theta, worth)).abs().max())
            if (kind, level) == ("weight", "sequence"):
                assert gap < 1e-12
            else:
                assert gap > 1e-4, (kind, level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_one_token_are_exact_at_every_level(level: str, seed: int) -> None:
    """A softmax over three tokens, one token long: the token is the row."""
    generator = torch.Generator().manual_seed(seed)
    theta = torch.randn(3, generator=generator, dtype=torch.float64).requires_grad_()
    old = torch.randn(3, generator=generator, dtype=torch.float64).log_softmax(0)
    worth = torch.randn(3, generator=generator, dtype=torch.float64)
    correction = make_config(
        Path("m"), "correction.kind=weight", f"correction.level={level}"
    ).correction
    everything = torch.ones(3, dtype=torch.bool)
    losses, _ = replayed_losses(
        correction, theta.log_softmax(0), old, worth, everything, Rows(torch.arange(3), 3)
    )
    (found,) = torch.autograd.grad(-(old.exp() * losses).sum(), theta, retain_graph=True)
    (truth,) = torch.autograd.grad((theta.softmax(0) * worth).sum(), theta)
    torch.testing.assert_close(found, truth)

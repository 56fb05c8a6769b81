"""Every correction at every level, in expectation, on a policy small enough to enumerate.

All kinds and levels go through the settings and the function that the learner calls, against the
table in the docstring of `algo/corrections.py`, computed with numpy from the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recollect.algo.rows import spread
from recollect.config.loading import load_config
from recollect.errors import PromiseBroken
from recollect.proof.enumerable import (
    EVERYTHING,
    ROWS,
    expected,
    gradient,
    parameters,
    policy_gradient,
    rewards,
    token_logprobs,
)
from recollect.train.objective import replayed_losses

Floats: TypeAlias = NDArray[np.float64]

# Gradient weight g of a token with ratio r and advantage A; settings as below.
PULLS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "weight": lambda r, a: r,
    "clip": lambda r, a: np.where(a >= 0, r * (r < 1.3), r * ((r > 0.8) & (r < 2.5))),
    "shape": lambda r, a: 0.2 * r / (r + 0.2) ** 2,
    "truncate": lambda r, a: np.minimum(r, 1.5),
    "mask": lambda r, a: r * ((r >= 0.6) & (r <= 1.6)),
}
LEVELS = ("token", "geometric", "sequence")
_SETTINGS = ("clip_high=0.3", "dual_clip=2.5", "shape_beta=0.2", "cap=1.5")
_BAND = ("band_low=0.6", "band_high=1.6")


@dataclass(frozen=True, slots=True)
class Case:
    """A policy, an older one that samples, a reward for each of its rows, and what comes of it.

    `found` is the gradient [20] that the correction gives in expectation over all sixteen rows.
    """

    theta: Tensor
    behaviour: Tensor
    worth: Tensor
    found: Tensor

    @property
    def truth(self) -> Tensor:
        """The gradient of the expected reward."""
        return policy_gradient(self.theta, self.worth)


def corrected(kind: str, level: str, seed: int) -> Case:
    """Work out what a correction gives when the older policy samples."""
    theta = parameters(seed)
    behaviour = parameters(seed + 1, 0.6, around=theta)
    worth = rewards(seed)
    flags = (f"kind={kind}", f"level={level}", *_SETTINGS, *_BAND)
    correction = load_config(None, [f"correction.{flag}" for flag in flags]).config.correction
    losses, _ = replayed_losses(
        correction,
        token_logprobs(theta),
        token_logprobs(behaviour).detach(),
        spread(worth, ROWS),
        EVERYTHING,
        ROWS,
    )
    return Case(theta, behaviour, worth, -gradient(expected(losses, behaviour), theta))


def documented(kind: str, level: str, case: Case) -> Tensor:
    """Sum over rows mu(y) A(y) sum over tokens g(r) grad log pi(token), written out: [20]."""
    logprobs = token_logprobs(case.theta)
    drift = (logprobs - token_logprobs(case.behaviour)).detach().numpy().reshape(16, 2)
    if level == "geometric":
        drift = np.repeat(drift.mean(axis=1, keepdims=True), 2, axis=1)
    if level == "sequence":
        drift = np.repeat(drift.sum(axis=1, keepdims=True), 2, axis=1)
    advantages = np.repeat(case.worth.numpy()[:, None], 2, axis=1)
    mu = np.exp(token_logprobs(case.behaviour).detach().numpy().reshape(16, 2).sum(axis=1))
    pull = mu[:, None] * advantages * PULLS[kind](np.exp(drift), advantages)
    return gradient((torch.from_numpy(pull).flatten() * logprobs).sum(), case.theta)


def enumerate_corrections(seeds: int) -> float:
    """Compare all corrections with their documentation; returns the largest difference.

    PromiseBroken where one is not what it is documented to be, and unless the ratio of the whole
    row, unbounded, is the policy gradient itself.
    """
    largest = 0.0
    for kind in PULLS:
        for level in LEVELS:
            for seed in range(seeds):
                case = corrected(kind, level, seed)
                apart = float((case.found - documented(kind, level, case)).abs().max())
                if (kind, level) == ("weight", "sequence"):
                    apart = max(apart, float((case.found - case.truth).abs().max()))
                if not apart < 1e-9:
                    what = (
                        f"correction {kind} of {level} ratios is off by {apart:.3g} (seed {seed})"
                    )
                    raise PromiseBroken(what)
                largest = max(largest, apart)
    return largest

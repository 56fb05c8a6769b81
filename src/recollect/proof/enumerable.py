"""A policy small enough to enumerate: two tokens, four choices each, sixteen possible rows.

All parameters are in one vector theta[20]: four logits for the first token, and four for the second
after each first. Expectations are exact sums over the sixteen rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from recollect.algo.rows import Rows, row_sums

CHOICES = 4
FIRST = torch.arange(CHOICES).repeat_interleave(CHOICES)
SECOND = torch.arange(CHOICES).repeat(CHOICES)
ROWS = Rows.from_lengths([2] * (CHOICES * CHOICES))
EVERYTHING = torch.ones(32, dtype=torch.bool)


def parameters(seed: int, scale: float = 1.0, around: Tensor | None = None) -> Tensor:
    """Random parameters [20] of a policy; `around` another policy's, or around 0."""
    generator = torch.Generator().manual_seed(seed)
    theta = scale * torch.randn(20, generator=generator, dtype=torch.float64)
    if around is not None:
        theta = theta + around.detach()
    return theta.requires_grad_()


def rewards(seed: int) -> Tensor:
    """One reward per row, of both signs: [16]."""
    generator = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(16, generator=generator, dtype=torch.float64)


def token_logprobs(theta: Tensor) -> Tensor:
    """Log-probs of both tokens of each of the sixteen rows, packed: [32]."""
    first = theta[:CHOICES].log_softmax(0)[FIRST]
    second = theta[CHOICES:].view(CHOICES, CHOICES).log_softmax(1)[FIRST, SECOND]
    return torch.stack([first, second], dim=1).flatten()


def row_logprobs(theta: Tensor) -> Tensor:
    """Log-probs of the sixteen rows: [16]."""
    return row_sums(token_logprobs(theta), ROWS)


def row_probabilities(theta: Tensor) -> Tensor:
    """Probabilities of the sixteen rows: [16], summing to 1."""
    return row_logprobs(theta).exp()


def expected(per_token: Tensor, theta: Tensor) -> Tensor:
    """Expectation, over rows sampled from the policy theta (a constant), of the sum over tokens."""
    return (row_probabilities(theta.detach()) * row_sums(per_token, ROWS)).sum()


def gradient(scalar: Tensor, theta: Tensor) -> Tensor:
    """Gradient of a scalar with respect to theta: [20]."""
    (found,) = torch.autograd.grad(scalar, theta, retain_graph=True)
    return found


def policy_gradient(theta: Tensor, row_rewards: Tensor) -> Tensor:
    """The gradient of the expected reward, the truth everything is measured against: [20]."""
    return gradient((row_probabilities(theta) * row_rewards).sum(), theta)

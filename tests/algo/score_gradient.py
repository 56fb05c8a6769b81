"""The gradient that biases are made of."""

from __future__ import annotations

from torch import Tensor

from recollect.proof.enumerable import gradient, row_logprobs


def score_gradient(theta: Tensor, row_weights: Tensor) -> Tensor:
    """Sum over rows of weight_y grad log pi(y), for constant weights [16]: [20]."""
    return gradient((row_weights.detach() * row_logprobs(theta)).sum(), theta)

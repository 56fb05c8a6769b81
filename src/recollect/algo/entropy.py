"""Entropy of distributions over tokens, also where some tokens are ruled out."""

from __future__ import annotations

import torch
from torch import Tensor


def entropy(logprobs: Tensor, probabilities: Tensor) -> Tensor:
    """-sum p log p over the last dimension, in nats: [..., V] to [...].

    A token of log-prob -inf adds 0 to it, and to its gradient. Log-probs that are not numbers give
    an entropy that is none.
    """
    found = -(probabilities * logprobs).sum(dim=-1)
    if bool(torch.isfinite(found).all()):
        return found
    # 0 times -inf is no number. Not done from the start: it would cost a copy of [..., V].
    kept = logprobs.masked_fill(logprobs.isneginf(), 0.0)
    return -(probabilities * kept).sum(dim=-1)

"""Choosing the next token from logits, one random number per row."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from recollect.algo.entropy import entropy
from recollect.types import Sampling


@dataclass(frozen=True, slots=True)
class Chosen:
    """Next tokens of B rows, with their log-probs and the entropy they were drawn at."""

    tokens: torch.Tensor  # [B] int64
    logprobs: torch.Tensor  # [B] float32
    entropies: torch.Tensor  # [B] float32


def choose(logits: torch.Tensor, uniforms: torch.Tensor, sampling: Sampling) -> Chosen:
    """Draw one token per row by inverting the cumulative distribution at `uniforms` [B].

    Log-probs and entropy are those of softmax(logits / temperature), before top-k and top-p
    cut it: this is what a trainer can recompute, so that the policy ratio of unchanged weights
    is 1. At temperature 0 the likeliest token is taken, and both are those of temperature 1.
    Logits [B, V] that are not numbers give log-probs that are not numbers, never an error.
    """
    greedy = sampling.temperature == 0
    scaled = logits.float()
    if sampling.temperature not in (0.0, 1.0):
        scaled = scaled / sampling.temperature
    logprobs = torch.log_softmax(scaled, dim=-1)
    probabilities = logprobs.exp()
    entropies = entropy(logprobs, probabilities)
    tokens = logits.argmax(dim=-1) if greedy else _invert(_cut(probabilities, sampling), uniforms)
    picked = logprobs.gather(1, tokens[:, None])[:, 0]
    # -0.0 and rounding a hair below zero are no entropies.
    return Chosen(tokens, picked.clamp(max=0.0), entropies.clamp(min=0.0))


def _invert(probabilities: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Return the first token at which the cumulative probability exceeds u times the total."""
    cumulative = probabilities.cumsum(dim=-1, dtype=torch.float64)
    threshold = uniforms.to(cumulative.dtype) * cumulative[:, -1]
    tokens = torch.searchsorted(cumulative, threshold[:, None], right=True)
    tokens = tokens.clamp(max=probabilities.shape[1] - 1)
    if bool((probabilities.gather(1, tokens) == 0).any()):
        # u so near 1 that rounding reaches the end: take the last token with any probability.
        last = probabilities.shape[1] - 1 - (probabilities.flip(1) > 0).int().argmax(dim=1)
        tokens = torch.minimum(tokens, last[:, None])
    return tokens[:, 0]


def _cut(probabilities: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Zero what top-k and top-p exclude; the likeliest token always stays.

    Tokens as likely as the last of the top k stay as well. Of equally likely ones at the edge
    of top-p, those with lower ids stay.
    """
    vocabulary = probabilities.shape[1]
    if sampling.top_k and sampling.top_k < vocabulary:
        floor = probabilities.topk(sampling.top_k, dim=-1).values[:, -1:]
        probabilities = torch.where(probabilities >= floor, probabilities, 0.0)
    if sampling.top_p < 1.0:
        ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
        total = ordered.cumsum(dim=-1, dtype=torch.float64)
        kept = torch.where(total - ordered < sampling.top_p * total[:, -1:], ordered, 0.0)
        probabilities = torch.zeros_like(probabilities).scatter(1, order, kept)
    return probabilities

"""KL divergence to a reference policy from samples: three estimators, as loss or as reward.

For a token sampled from pi, with d = log pi - log ref (Schulman 2020, "Approximating KL
divergence"), the estimators of KL(pi || ref) are

    k1 = d               unbiased, high variance, can be negative
    k2 = d^2 / 2         biased, low variance, >= 0
    k3 = e^-d - 1 + d    unbiased, low variance, >= 0, but heavy-tailed where pi << ref

An unbiased *value* is not an unbiased *gradient* (Tang & Munos 2025, arXiv:2506.09477; Liu et al.
2025, arXiv:2510.01555). The true gradient is E_pi[d grad log pi]. On samples from pi:

    differentiated    expected gradient                       verdict
    k1                E[grad log pi] = 0                       noise only; refused
    k2                E[d grad log pi]                         unbiased
    k3                E[(1 - ref/pi) grad log pi]              the gradient of KL(ref || pi)

    in the reward     expected gradient
    k1                E[d grad log pi]                         unbiased
    k2                E[d^2/2 grad log pi]                     biased
    k3                E[(ref/pi - 1 + d) grad log pi]          biased: adds -grad KL(ref || pi)

So: k1 in the reward, or k2 as a loss. On samples from another policy mu each term would need the
weight pi/mu; without it even k2 is biased, so training leaves stored tokens, and tokens sampled
with notes that are gone, out of the penalty in the loss. In the reward they have it: their ratio
weighs it there as it weighs the reward, and without it they would pass for better than the rows
that they are compared with.
As a per-token loss, all of this holds given the states that were visited; what a token does to the
KL of later tokens is only seen in the reward.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from recollect.algo.checks import check_same_shape, check_tokens
from recollect.algo.ratios import MAX_LOG_RATIO

Estimator: TypeAlias = Literal["k1", "k2", "k3"]


def k1(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """Log-ratio estimate d = log pi - log ref per token: [N]. Mean over samples of pi is the KL."""
    check_same_shape(logprobs=logprobs, reference_logprobs=reference_logprobs)
    return logprobs - reference_logprobs.detach()


def k2(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """Half squared log-ratio d^2 / 2 per token: [N]. Its gradient is d grad log pi."""
    return 0.5 * k1(logprobs, reference_logprobs).square()


def k3(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """e^-d - 1 + d per token: [N], never negative. Its gradient is (1 - e^-d) grad log pi.

    The exponent is limited to +-MAX_LOG_RATIO, which keeps value and gradient finite; the gradient
    goes on past the limit, so that it never points away from the reference.
    """
    drift = k1(logprobs, reference_logprobs)
    beyond = (-drift).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO) + drift
    return torch.expm1(beyond.detach() - drift) + drift


def moved(log_ratios: Tensor) -> Tensor:
    """How far the policy has moved from one that sampled the tokens: [N], k3 of KL(sampler || pi).

    `log_ratios[N]` are log pi - log sampler. The mean over the sampler's tokens is the KL.
    """
    return k3(-log_ratios, torch.zeros_like(log_ratios))


def kl_loss(
    logprobs: Tensor,
    reference_logprobs: Tensor,
    mask: Tensor,
    *,
    value: Estimator = "k3",
    gradient: Literal["k2", "k3"] = "k2",
) -> Tensor:
    """KL penalty per token to add to the loss: [N], 0 outside the mask.

    What is shown and what is differentiated are chosen apart: `value` by its variance (k3), and
    `gradient` by its bias (k2 is right, see above). With k3 for both it is GRPO as published
    (arXiv:2402.03300).
    """
    check_tokens(mask, logprobs=logprobs, reference_logprobs=reference_logprobs)
    if gradient not in ("k2", "k3"):
        raise ValueError(f"gradient must be 'k2' or 'k3', got {gradient!r}: k1's is 0 on average")
    current = torch.where(mask, logprobs, 0.0)
    reference = torch.where(mask, reference_logprobs, 0.0)
    shown = estimate(current, reference, value)
    if gradient != value:
        carrier = estimate(current, reference, gradient)
        shown = shown.detach() + (carrier - carrier.detach())
    return shown


def kl_penalty(
    logprobs: Tensor, reference_logprobs: Tensor, mask: Tensor, *, estimator: Estimator = "k1"
) -> Tensor:
    """KL estimate per token to subtract from the rewards: [N], a constant, 0 outside the mask.

    Only k1 gives the gradient of KL(pi || ref) once the policy gradient multiplies it by
    grad log pi (with the reward to go, so that a token answers for what follows it).
    """
    check_tokens(mask, logprobs=logprobs, reference_logprobs=reference_logprobs)
    current = torch.where(mask, logprobs.detach(), 0.0)
    return estimate(current, torch.where(mask, reference_logprobs, 0.0), estimator)


def estimate(logprobs: Tensor, reference_logprobs: Tensor, estimator: Estimator) -> Tensor:
    """The estimator by its name: [N]."""
    if estimator == "k1":
        return k1(logprobs, reference_logprobs)
    if estimator == "k2":
        return k2(logprobs, reference_logprobs)
    if estimator == "k3":
        return k3(logprobs, reference_logprobs)
    raise ValueError(f"estimator must be 'k1', 'k2' or 'k3', got {estimator!r}")

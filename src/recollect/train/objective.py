"""The objective a configuration asks for: losses per token, and one number from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch

from recollect.algo import aggregation, corrections, kl
from recollect.algo.losses import cispo, gspo, importance_weighted, ppo_clip, reinforce, topr
from recollect.algo.rows import Rows
from recollect.algo.surrogate import TokenDiagnostics
from recollect.algo.values import value_loss
from recollect.config.schema.algo import AlgoSettings
from recollect.config.schema.config import Config
from recollect.config.schema.correction import CorrectionSettings
from recollect.config.schema.critic import CriticSettings


def policy_losses(
    algo: AlgoSettings,
    logprobs: torch.Tensor,
    recorded: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    rows: Rows,
) -> tuple[torch.Tensor, TokenDiagnostics]:
    """Loss of each fresh token [n] by `algo.loss`, 0 outside the mask; what became of them."""
    given = (logprobs, recorded, advantages, mask)
    if algo.loss == "ppo_clip":
        return ppo_clip(*given, low=algo.clip_low, high=algo.clip_high, dual=algo.dual_clip)
    if algo.loss == "gspo":
        return gspo(*given, rows, low=algo.clip_low, high=algo.clip_high)
    if algo.loss == "cispo":
        return cispo(*given, low=algo.clip_low, high=algo.clip_high)
    if algo.loss == "topr":
        return topr(*given, rows)
    if algo.loss == "importance_weighted":
        return importance_weighted(*given)
    return reinforce(logprobs, advantages, mask)


def replayed_losses(
    correction: CorrectionSettings,
    logprobs: torch.Tensor,
    recorded: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    rows: Rows,
) -> tuple[torch.Tensor, TokenDiagnostics]:
    """Loss of each replayed token [n] by `correction.kind`, 0 outside the mask."""
    c, given = correction, (logprobs, recorded, advantages, mask)
    if c.kind == "clip":
        objective, diagnostics = corrections.clip(
            *given,
            off_cliprange_high=c.clip_high,
            low=c.clip_low,
            dual=c.dual_clip,
            level=c.level,
            rows=rows,
        )
    elif c.kind == "shape":
        objective, diagnostics = corrections.shape(
            *given, beta=c.shape_beta, level=c.level, rows=rows
        )
    elif c.kind == "truncate":
        objective, diagnostics = corrections.truncate(*given, cap=c.cap, level=c.level, rows=rows)
    elif c.kind == "mask":
        objective, diagnostics = corrections.mask_out(
            *given, low=c.band_low, high=c.band_high, level=c.level, rows=rows
        )
    else:
        objective, diagnostics = corrections.weight(*given, level=c.level, rows=rows)
    return -c.weight * objective, diagnostics


def stripped_losses(
    config: Config,
    logprobs: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    masks: tuple[torch.Tensor, torch.Tensor],
    rows: Rows,
) -> tuple[torch.Tensor, TokenDiagnostics]:
    """Loss of each token [n] of rows that lost their notes; 0 outside the masks.

    `masks` are those of all such tokens, and of those among them to be distilled: these are learnt
    by -max(A, 0) log pi(token | bare prompt), the gradient of the cross-entropy between the policy
    with the notes, which sampled them, and the one without (context distillation, Askell et al.
    2021, arXiv:2112.00861), for what turned out well. The others are weighted by their ratio.
    """
    notes, algo, (mask, distilled) = config.notes, config.algo, masks
    given = (logprobs, old, advantages, mask & ~distilled)
    if notes.ratio == "recorded":
        objective, diagnostics = corrections.truncate(
            *given, cap=notes.cap, level=notes.level, rows=rows
        )
    else:
        objective, diagnostics = corrections.clip(
            *given,
            off_cliprange_high=notes.clip_high,
            low=algo.clip_low,
            dual=algo.dual_clip,
            level=notes.level,
            rows=rows,
        )
    taught, _ = reinforce(logprobs, advantages.clamp(min=0), distilled)
    return notes.distill_weight * taught - objective, replace(diagnostics, mask=mask)


def kl_losses(
    algo: AlgoSettings, logprobs: torch.Tensor, reference: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """What the KL divergence to the reference adds to the loss of each token [n]; 0 outside."""
    # The schema refuses k1 in the loss, whose gradient is 0 on average.
    gradient: Literal["k2", "k3"] = "k3" if algo.kl_estimator == "k3" else "k2"
    return algo.kl_coef * kl.kl_loss(logprobs, reference, mask, value="k3", gradient=gradient)


def value_losses(
    critic: CriticSettings, values: torch.Tensor, returns: torch.Tensor, old: torch.Tensor
) -> torch.Tensor:
    """Loss of each value [n], all of which count, clipped around the old ones if that is asked."""
    mask = torch.ones_like(values, dtype=torch.bool)
    if critic.clip is None:
        return value_loss(values, returns, mask)
    return value_loss(values, returns, mask, old_values=old, cliprange=critic.clip)


def aggregated(
    config: Config, token_losses: torch.Tensor, rows: Rows, denominator: float
) -> torch.Tensor:
    """One number from the losses of the tokens of a pack: its share in the optimiser step."""
    return contributions(config, token_losses, rows, denominator).sum()


def contributions(
    config: Config, token_losses: torch.Tensor, rows: Rows, denominator: float
) -> torch.Tensor:
    """What each token [n] of a pack adds to the loss of the optimiser step."""
    algo = config.algo
    norm = None  # only one of the modes has such a constant
    if algo.aggregation == "seq-mean-token-sum-norm":
        norm = algo.aggregation_norm or float(config.rollout.max_tokens)
    mask = torch.ones_like(rows.index, dtype=torch.bool)
    return aggregation.contributions(
        token_losses, rows, mask, mode=algo.aggregation, denominator=denominator, norm=norm
    )

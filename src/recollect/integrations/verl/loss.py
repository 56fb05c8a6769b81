"""Our losses as a policy loss of verl: fresh, replayed and stripped tokens, each by its own rule.

verl gives a policy loss the log-probs, the old ones, the advantages, the mask, and one more number
for each token, `rollout_is_weights`. Our rows carry in it what they are, as a code:

    0      fresh
    w > 0  replayed, with priority weight w
    -1     fresh, but its notes were taken out
    -2     the same, and learnt as it is

so that the loss of every token is what the learner of one process computes for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recollect.algo.rows import Rows
from recollect.algo.surrogate import TokenDiagnostics
from recollect.config.schema.config import Config
from recollect.train.folder import RunFolder
from recollect.train.objective import aggregated, policy_losses, replayed_losses, stripped_losses

FRESH, STRIPPED, DISTILLED = 0.0, -1.0, -2.0
ON, OFF = "actor/on_policy", "actor/off_policy"  # of metrics: fresh tokens, replayed tokens
OWN_METRICS = (ON, OFF)
RUN_VARIABLE = "RECOLLECT_RUN"  # the folder of the run that a worker works for


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Loss of the tokens of one origin: [n], 0 elsewhere; what became of them."""

    losses: Tensor
    diagnostics: TokenDiagnostics


@dataclass(frozen=True, slots=True, eq=False)
class TokenLosses:
    """Loss of each token [n], and the parts it is the sum of."""

    total: Tensor
    fresh: Part
    stripped: Part | None
    replayed: Part | None


def token_losses(
    config: Config, logprobs: Tensor, old: Tensor, advantages: Tensor, codes: Tensor, rows: Rows
) -> TokenLosses:
    """Loss of each token by what it is; all tensors are over sampled tokens [n]."""
    stored, stripped = codes > 0, codes < 0
    given = logprobs, old, advantages
    fresh = Part(*policy_losses(config.algo, *given, ~(stored | stripped), rows))
    total, bare, off = fresh.losses, None, None
    if bool(stripped.any()):
        masks = stripped, codes == DISTILLED
        bare = Part(*stripped_losses(config, *given, masks, rows))
        total = total + bare.losses
    if bool(stored.any()):
        found, what = replayed_losses(config.correction, *given, stored, rows)
        off = Part(found * torch.where(stored, codes, 0.0), what)
        total = total + off.losses
    return TokenLosses(total, fresh, bare, off)


def make_policy_loss(load: Callable[[], Config]) -> Callable[..., tuple[Tensor, dict[str, float]]]:
    """Make the function that verl registers; `load` gives the run's configuration when asked."""

    def recollect_loss(
        old_log_prob: Tensor,
        log_prob: Tensor,
        advantages: Tensor,
        response_mask: Tensor,
        loss_agg_mode: str,
        config: Any,
        rollout_is_weights: Tensor | None = None,
        **unused: Any,
    ) -> tuple[Tensor, dict[str, float]]:
        """Loss of a microbatch, [rows, tokens] each; its share in the whole optimiser step.

        verl averages gradients over its workers, so the share is multiplied by their number.
        """
        if rollout_is_weights is None:
            raise ValueError("rows carry no origin: they were not published by recollect")
        mask = response_mask.bool()
        rows = Rows(mask.nonzero()[:, 0], mask.shape[0])
        codes = rollout_is_weights[mask]
        settings = load()
        found = token_losses(
            settings, log_prob[mask], old_log_prob[mask], advantages[mask], codes, rows
        )
        loss = aggregated(settings, found.total, rows, _denominator(settings, config))
        drift = (log_prob.detach() - old_log_prob)[mask]
        return loss * _workers(config), _metrics(found, drift, codes)

    return recollect_loss


@lru_cache(maxsize=1)
def run_config() -> Config:
    """Read the configuration of the run that this worker works for."""
    return RunFolder(Path(os.environ[RUN_VARIABLE])).load()


def _denominator(settings: Config, config: Any) -> float:
    """What the step divides by: counted by verl over all workers and microbatches."""
    info: Mapping[str, Any] = config.global_batch_info
    by_token = settings.algo.aggregation == "token-mean"
    return float(info["batch_num_tokens"] if by_token else info["global_batch_size"])


def _workers(config: Any) -> int:
    return int(config.global_batch_info["dp_size"])


def _metrics(found: TokenLosses, drift: Tensor, codes: Tensor) -> dict[str, float]:
    """Say what became of fresh and replayed tokens, apart; the same names whatever there is."""
    told: dict[str, float] = {}
    ratios, stored = drift.exp(), codes > 0
    for name, mask, part in (
        (ON, codes == FRESH, found.fresh),
        (OFF, stored, found.replayed),
    ):
        here = ratios[mask]
        some = bool(here.numel())
        told[f"{name}/ratio_mean"] = float(here.mean()) if some else 1.0
        told[f"{name}/ratio_std"] = float(here.std(unbiased=False)) if some else 0.0
        clipped = part.diagnostics.clip_fraction if part is not None else 0.0
        told[f"{name}/clip_share"] = float(clipped)
    return told

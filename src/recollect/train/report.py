"""What an update did: the figures of its optimiser steps, gathered pack by pack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from recollect.algo.kl import moved
from recollect.algo.surrogate import TokenDiagnostics
from recollect.train.batch import ScoredRow
from recollect.train.mismatch import Mismatch
from recollect.train.replayed import Replayed, ReplayedFigures, ReplayedTokens
from recollect.train.stripped import Stripped, StrippedTokens, sum_up


@dataclass(frozen=True, slots=True)
class Drift:
    """How far the policy was from the one that sampled, over fresh tokens of applied updates."""

    kl: float  # k3 estimate of KL(sampler || now), nats per token
    ratio_max: float
    clip_share: float
    logprob_difference: float  # mean |trainer - sampler| before the first optimiser step


@dataclass(slots=True)
class CriticFigures:
    """Value loss of an optimiser step or of an update (a mean), and the critic's gradient norm."""

    loss: float = 0.0
    norm: float = 0.0


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What an update did, over all of its optimiser steps.

    Loss and gradient norm are means over the steps that were applied: 0 where no row carried
    signal, NaN where every step was refused. `rows` and `tokens` count what carried gradient,
    once, however often. `drift` is None where no fresh row did, `replayed` where no stored one,
    `stripped` where none lost its notes, `critic` where there is none or nothing was applied; its
    loss is not part of `loss`. `mismatch` is None where the model that trains also sampled.
    """

    loss: float
    grad_norm: float
    learning_rate: float
    rows: int
    tokens: int
    optimizer_steps: int
    skipped: int
    drift: Drift | None
    replayed: Replayed | None = None
    stripped: Stripped | None = None
    critic: CriticFigures | None = None
    mismatch: Mismatch | None = None


@dataclass(slots=True)
class StepFigures:
    """Running sums over the packs of one optimiser step; those of fresh tokens, but for the loss.

    `replayed` holds what stored rows did in it, `stripped` what rows did that lost their notes,
    `critic` what the critic did.
    """

    loss: float = 0.0
    tokens: int = 0
    kl: float = 0.0
    clipped: float = 0.0
    difference: float = 0.0
    ratio_max: float = 0.0
    replayed: ReplayedTokens = field(default_factory=ReplayedTokens)
    stripped: StrippedTokens = field(default_factory=StrippedTokens)
    critic: CriticFigures = field(default_factory=CriticFigures)

    def add(
        self,
        loss: torch.Tensor,
        logprobs: torch.Tensor,
        recorded: torch.Tensor,
        diagnostics: TokenDiagnostics,
    ) -> None:
        """Add one pack: its whole loss, and its fresh tokens (the mask of the diagnostics)."""
        drift = (logprobs.detach() - recorded).double()[diagnostics.mask]
        self.loss += float(loss.detach())
        if not drift.numel():
            return
        self.tokens += drift.numel()
        self.kl += float(moved(drift).sum())
        self.clipped += float(diagnostics.clip_fraction) * drift.numel()
        self.difference += float(drift.abs().sum())
        self.ratio_max = max(self.ratio_max, float(drift.max().exp()))

    def merge(self, other: StepFigures, first: int) -> None:
        """Add what another process found out about rows from number `first` on."""
        self.loss += other.loss
        self.tokens += other.tokens
        self.kl += other.kl
        self.clipped += other.clipped
        self.difference += other.difference
        self.ratio_max = max(self.ratio_max, other.ratio_max)
        self.replayed.merge(other.replayed, first)
        self.stripped.merge(other.stripped)
        self.critic.loss += other.critic.loss


class UpdateFigures:
    """Running sums over the optimiser steps of one update, `with_critic` or without one."""

    def __init__(self, with_critic: bool = False) -> None:
        self._with_critic = with_critic
        self._applied: list[StepFigures] = []
        self._norm = 0.0
        self._skipped = 0
        self._trained: dict[str, int] = {}  # sampled tokens by row
        self._replayed = ReplayedFigures()

    def apply(self, step: StepFigures, norm: float, rows: Sequence[ScoredRow]) -> None:
        """Add an optimiser step that was applied to some rows."""
        self._applied.append(step)
        self._norm += norm
        self._trained.update((row.trajectory.id, row.trajectory.sampled_count) for row in rows)
        self._replayed.apply(step.replayed, rows)

    def skip(self) -> None:
        """Count an optimiser step that was refused."""
        self._skipped += 1

    def report(
        self, rate: float, distilled: int = 0, mismatch: Mismatch | None = None
    ) -> UpdateReport:
        """Sum up; `distilled` of the rows were learnt as they are."""
        steps = len(self._applied)
        nothing = math.nan if self._skipped else 0.0
        return UpdateReport(
            loss=sum(step.loss for step in self._applied) / steps if steps else nothing,
            grad_norm=self._norm / steps if steps else nothing,
            learning_rate=rate,
            rows=len(self._trained),
            tokens=sum(self._trained.values()),
            optimizer_steps=steps,
            skipped=self._skipped,
            drift=self._drift(),
            replayed=self._replayed.report(steps),
            stripped=sum_up([step.stripped for step in self._applied], distilled),
            critic=self._critic(),
            mismatch=mismatch,
        )

    def _critic(self) -> CriticFigures | None:
        if not self._with_critic or not self._applied:
            return None
        steps = len(self._applied)
        return CriticFigures(
            sum(step.critic.loss for step in self._applied) / steps,
            sum(step.critic.norm for step in self._applied) / steps,
        )

    def _drift(self) -> Drift | None:
        fresh = [step for step in self._applied if step.tokens]
        tokens = sum(step.tokens for step in fresh)
        if not tokens:
            return None
        return Drift(
            kl=sum(step.kl for step in fresh) / tokens,
            ratio_max=max(step.ratio_max for step in fresh),
            clip_share=sum(step.clipped for step in fresh) / tokens,
            logprob_difference=fresh[0].difference / fresh[0].tokens,
        )

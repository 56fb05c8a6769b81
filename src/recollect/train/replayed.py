"""What stored rows did in an update: their policy ratios, row by row and altogether."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.algo.kl import moved
from recollect.algo.ratios import MAX_LOG_RATIO
from recollect.algo.surrogate import TokenDiagnostics
from recollect.replay.pick import Pick
from recollect.train.batch import ScoredRow
from recollect.train.credit import Credit


@dataclass(frozen=True, slots=True)
class Ratios:
    """Policy ratios of some tokens: mean, median, 99 % quantile, largest, and their ESS.

    The effective sample size (sum r)^2 / (n sum r^2) is a share of n: 1 when all are equal.
    """

    mean: float
    p50: float
    p99: float
    max: float
    ess: float

    @classmethod
    def of(cls, log_ratios: NDArray[np.float64]) -> Ratios:
        """Sum up at least one log ratio."""
        ratios = np.exp(np.clip(log_ratios, -MAX_LOG_RATIO, MAX_LOG_RATIO))
        p50, p99 = np.quantile(ratios, (0.5, 0.99))
        ess = ratios.sum() ** 2 / (ratios.size * np.square(ratios).sum())
        # Equal ratios may round to a little more than 1, which is no share.
        return cls(*map(float, (ratios.mean(), p50, p99, ratios.max(), min(ess, 1.0))))


def divergence(log_ratios: NDArray[np.float64]) -> float:
    """Estimate KL(sampler || now) on the sampler's tokens, in nats per token."""
    return float(moved(torch.from_numpy(log_ratios)).mean())


@dataclass(frozen=True, slots=True)
class RowUse:
    """What one stored row did: ratios and clipping at its first use in the step.

    The policy loss of an optimiser step, before what KL and entropy add, is a sum over tokens;
    `loss_share` is the row's part of their absolute values. `updates` counts the optimiser steps
    that applied it. `credit` is a critic's, where there is one.
    """

    pick: Pick
    advantage: float
    ratios: Ratios
    clip_share: float
    loss_share: float
    updates: int
    credit: Credit | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """All stored rows of an update. `loss` is their part of the update's loss.

    `kl` is the divergence on their tokens.
    """

    uses: tuple[RowUse, ...]
    ratios: Ratios
    clip_share: float
    loss: float
    kl: float


@dataclass(slots=True)
class ReplayedTokens:
    """The replayed tokens of one optimiser step, gathered pack by pack."""

    rows: list[NDArray[np.int64]] = field(default_factory=list)
    log_ratios: list[NDArray[np.float64]] = field(default_factory=list)
    clipped: list[NDArray[np.bool_]] = field(default_factory=list)
    losses: list[NDArray[np.float64]] = field(default_factory=list)  # what each adds, absolute
    all_losses: float = 0.0  # the same, fresh tokens included
    loss: float = 0.0

    def add(
        self,
        rows: torch.Tensor,
        log_ratios: torch.Tensor,
        losses: torch.Tensor,
        loss: float,
        diagnostics: TokenDiagnostics,
    ) -> None:
        """Add the replayed tokens of one pack; tensors are over all of its tokens [n]."""
        mask, d = diagnostics.mask, diagnostics
        clipped = d.clipped_high | d.clipped_low | d.clipped_dual
        self.rows.append(rows[mask].cpu().numpy())
        self.log_ratios.append(log_ratios.detach()[mask].double().cpu().numpy())
        self.clipped.append(clipped[mask].cpu().numpy())
        self.losses.append(losses.detach()[mask].abs().double().cpu().numpy())
        self.all_losses += float(losses.detach().abs().sum())
        self.loss += loss

    def merge(self, other: ReplayedTokens, first: int) -> None:
        """Add the tokens of another process, whose rows are those from number `first` on."""
        self.rows += [rows + first for rows in other.rows]
        self.log_ratios += other.log_ratios
        self.clipped += other.clipped
        self.losses += other.losses
        self.all_losses += other.all_losses
        self.loss += other.loss


class ReplayedFigures:
    """Running figures of stored rows over the optimiser steps of one update."""

    def __init__(self) -> None:
        self._uses: dict[int, RowUse] = {}  # by slot
        self._log_ratios: list[NDArray[np.float64]] = []
        self._clipped: list[NDArray[np.bool_]] = []
        self._loss = 0.0

    def apply(self, tokens: ReplayedTokens, rows: Sequence[ScoredRow]) -> None:
        """Add an optimiser step that was applied."""
        if not tokens.rows:
            return
        index = np.concatenate(tokens.rows)
        drift, clipped = np.concatenate(tokens.log_ratios), np.concatenate(tokens.clipped)
        losses = np.concatenate(tokens.losses)
        self._log_ratios.append(drift)
        self._clipped.append(clipped)
        self._loss += tokens.loss
        for number, row in enumerate(rows):
            if row.pick is None:
                continue
            known = self._uses.get(row.pick.slot)
            mine = index == number
            first = known or RowUse(
                pick=row.pick,
                advantage=row.advantage,
                ratios=Ratios.of(drift[mine]),
                clip_share=float(clipped[mine].mean()),
                loss_share=float(losses[mine].sum() / (tokens.all_losses or 1.0)),
                updates=0,
                credit=row.credit,
            )
            self._uses[row.pick.slot] = replace(first, updates=first.updates + 1)

    def report(self, steps: int) -> Replayed | None:
        """Sum up over `steps` applied optimiser steps; None if no stored row was in them."""
        if not self._uses:
            return None
        drift = np.concatenate(self._log_ratios)
        return Replayed(
            uses=tuple(self._uses[slot] for slot in sorted(self._uses)),
            ratios=Ratios.of(drift),
            clip_share=float(np.concatenate(self._clipped).mean()),
            loss=self._loss / steps,
            kl=divergence(drift),
        )

"""Rows that train without the notes they were sampled with: their ratios, and their figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.algo.surrogate import TokenDiagnostics
from recollect.config.schema.notes import NotesSettings
from recollect.train.batch import ScoredRow
from recollect.train.replayed import Ratios
from recollect.trajectory import Trajectory
from recollect.types import TrajectoryId

Logprobs = Callable[[Sequence[Trajectory]], list[NDArray[np.float32]]]


@dataclass(frozen=True, slots=True)
class BareRows:
    """What is known of a batch's stripped rows before its first update, by trajectory id.

    `old` stands in for recorded log-probs, where that is asked for. `distilled` are rows whose
    policy ratios are too uneven to be weighted by.
    """

    old: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    distilled: frozenset[str] = frozenset()


def look_at(rows: Sequence[ScoredRow], notes: NotesSettings, logprobs: Logprobs) -> BareRows:
    """Compute what the policy thinks of stripped rows now, if anything depends on it."""
    bare = {row.trajectory.id: row.trajectory for row in rows if is_stripped(row)}
    if not bare or (notes.ratio == "recorded" and not notes.min_ess):
        return BareRows()
    found = logprobs(list(bare.values()))
    now = {str(id_): each for id_, each in zip(bare, found, strict=True)}
    distilled = frozenset(
        id_
        for id_, each in now.items()
        if notes.min_ess and _ess(each, bare[TrajectoryId(id_)]) < notes.min_ess
    )
    return BareRows(now if notes.ratio == "recomputed" else {}, distilled)


def is_stripped(row: ScoredRow) -> bool:
    """Tell whether a fresh row lost its notes; a stored one is corrected as stored rows are."""
    return row.stripped and row.pick is None


def _ess(now: NDArray[np.float32], row: Trajectory) -> float:
    assert row.logprobs is not None, "a guided row has log-probs"
    return Ratios.of(now.astype(np.float64) - row.logprobs).ess


@dataclass(frozen=True, slots=True)
class Stripped:
    """What stripped rows did in an update; ratios are against the policy that had the notes."""

    ratios: Ratios
    clip_share: float
    loss: float
    distilled: int


@dataclass(slots=True)
class StrippedTokens:
    """The tokens of stripped rows in one optimiser step, gathered pack by pack."""

    log_ratios: list[NDArray[np.float64]] = field(default_factory=list)
    clipped: list[NDArray[np.bool_]] = field(default_factory=list)
    loss: float = 0.0

    def add(self, log_ratios: torch.Tensor, loss: float, diagnostics: TokenDiagnostics) -> None:
        """Add one pack; `log_ratios` are over all of its tokens [n]."""
        d = diagnostics
        clipped = d.clipped_high | d.clipped_low | d.clipped_dual
        self.log_ratios.append(log_ratios.detach()[d.mask].double().cpu().numpy())
        self.clipped.append(clipped[d.mask].cpu().numpy())
        self.loss += loss

    def merge(self, other: StrippedTokens) -> None:
        """Add the tokens of another process."""
        self.log_ratios += other.log_ratios
        self.clipped += other.clipped
        self.loss += other.loss


def sum_up(steps: Sequence[StrippedTokens], distilled: int) -> Stripped | None:
    """Sum up over the applied optimiser steps; None if no stripped row was in them."""
    drift = [part for step in steps for part in step.log_ratios]
    if not sum(part.size for part in drift):
        return None
    clipped = np.concatenate([part for step in steps for part in step.clipped])
    return Stripped(
        ratios=Ratios.of(np.concatenate(drift)),
        clip_share=float(clipped.mean()),
        loss=sum(step.loss for step in steps) / len(steps),
        distilled=distilled,
    )

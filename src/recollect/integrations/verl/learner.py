"""The learner of a run under verl: scored batches become optimiser steps on its workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.algo.rows import Rows
from recollect.config.schema.config import Config
from recollect.integrations.verl.journal import Journal
from recollect.integrations.verl.loss import token_losses
from recollect.integrations.verl.training_row import TrainingRow, training_row
from recollect.train.batch import Batch, ScoredRow
from recollect.train.guards import Guard
from recollect.train.objective import aggregated, contributions
from recollect.train.optimizer import learning_rate
from recollect.train.preparing import recomputed, step_denominator, update_parts
from recollect.train.report import StepFigures, UpdateFigures, UpdateReport
from recollect.train.stripped import look_at
from recollect.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Applied:
    """What the workers say of an optimiser step; a norm that is not finite was not applied.

    `said` are the figures of the loss, fresh and replayed tokens apart, as workers found them.
    """

    loss: float
    grad_norm: float
    said: Mapping[str, float] = field(default_factory=dict)


class Workers(Protocol):
    """The training workers of a cluster.

    Promises: `train` applies one optimiser step over all rows given, or none at all where the
    gradient is not finite; rows are found again by place in the list.
    """

    def logprobs(self, rows: Sequence[TrainingRow]) -> list[NDArray[np.float32]]:
        """Log-probs of the tokens of each row's response under the policy as it is now."""

    def train(self, rows: Sequence[TrainingRow], rate: float) -> Applied:
        """Make one optimiser step at a learning rate."""

    def save(self, folder: Path) -> None:
        """Write weights and optimiser state."""

    def load(self, folder: Path) -> None:
        """Take them back."""


class ClusterLearner:
    """Applies scored batches through workers; figures are those of the learner in one process.

    Before each optimiser step the workers give the log-probs of its rows, so that ratios, clip
    shares and losses in the ledger are those of the moment at which the step is applied.
    """

    def __init__(self, config: Config, workers: Workers, guard: Guard, journal: Journal) -> None:
        self.version = 0
        self._config = config
        self._workers = workers
        self._guard = guard
        self._journal = journal

    def update(
        self,
        batch: Batch,
        step: int,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> UpdateReport:
        """Train on the rows of a batch that carry signal, then on its extra updates."""
        config = self._config
        rate = learning_rate(config.train, step, config.run.steps)
        figures, parts = UpdateFigures(), update_parts(batch, config)
        bare = look_at(batch.training, config.notes, self.logprobs)
        old = {**recomputed(batch, config.correction, self.logprobs), **bare.old}
        for done, rows in enumerate(parts, start=1):
            cut = [
                training_row(row, old.get(row.trajectory.id), row.trajectory.id in bare.distilled)
                for row in rows
            ]
            self._step(rows, cut, step, rate, figures)
            progress(done, len(parts))
        return figures.report(rate, len(bare.distilled))

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float32]]:
        """Log-probs of each row's sampled tokens under the policy as it is now."""
        unknown = [np.zeros(t.sampled_count, np.float32) for t in trajectories]
        rows = [
            training_row(ScoredRow(t, 0.0, True), t.logprobs if t.logprobs is not None else none)
            for t, none in zip(trajectories, unknown, strict=True)
        ]
        found = self._workers.logprobs(rows) if rows else []
        return [each[row.mask > 0] for each, row in zip(found, rows, strict=True)]

    def penalties(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """No row has any: a KL divergence in the reward is refused."""
        return [0.0] * len(trajectories)

    def save(self, folder: Path) -> None:
        """Write weights and optimiser state, as a model folder and as shards."""
        self._workers.save(folder)

    def restore(self, folder: Path, version: int) -> None:
        """Take weights, optimiser state and version back."""
        self._workers.load(folder)
        self.version = version

    def _step(
        self,
        rows: Sequence[ScoredRow],
        cut: Sequence[TrainingRow],
        step: int,
        rate: float,
        figures: UpdateFigures,
    ) -> None:
        """One optimiser step, unless its loss is not finite."""
        denominator = step_denominator(rows, self._config.algo.aggregation)
        piece = step_figures(self._config, cut, self._workers.logprobs(cut), denominator)
        applied = Applied(piece.loss, math.nan)
        if math.isfinite(piece.loss):
            applied = self._workers.train(cut, rate)
        if self._guard.allows(step, piece.loss, applied.grad_norm, rows):
            self.version += 1
            self._journal.add(
                step, self.version, cut, applied.loss, applied.grad_norm, applied.said
            )
            figures.apply(piece, applied.grad_norm, rows)
        else:
            figures.skip()


def step_figures(
    config: Config,
    rows: Sequence[TrainingRow],
    now: Sequence[NDArray[np.float32]],
    denominator: float,
) -> StepFigures:
    """Compute what an optimiser step will do, from the log-probs before it.

    `now` are those of each response's tokens; what was not sampled is passed over.
    """
    masks = [row.mask > 0 for row in rows]
    lengths = [int(mask.sum()) for mask in masks]

    def joined(parts: Sequence[NDArray[np.float32]]) -> torch.Tensor:
        picked = [part[mask] for part, mask in zip(parts, masks, strict=True)]
        return torch.from_numpy(np.concatenate(picked))

    logprobs = joined(now)
    behaviour = joined([row.behaviour for row in rows])
    old, advantages = joined([row.old for row in rows]), joined([row.advantages for row in rows])
    codes, index = joined([row.codes for row in rows]), Rows.from_lengths(lengths)
    found = token_losses(config, logprobs, old, advantages, codes, index)
    figures = StepFigures()

    def share(losses: torch.Tensor) -> float:
        return float(aggregated(config, losses, index, denominator))

    if found.stripped is not None:
        bare = found.stripped
        figures.stripped.add(logprobs - behaviour, share(bare.losses), bare.diagnostics)
    if found.replayed is not None:
        off, pulls = found.replayed, contributions(config, found.total, index, denominator)
        figures.replayed.add(
            index.index, logprobs - behaviour, pulls, share(off.losses), off.diagnostics
        )
    loss = aggregated(config, found.total, index, denominator)
    figures.add(loss, logprobs, old, found.fresh.diagnostics)
    return figures

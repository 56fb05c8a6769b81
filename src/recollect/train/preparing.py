"""What is decided about a batch before an optimiser sees it, on whatever machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from recollect.algo.aggregation import Mode, batch_denominator
from recollect.config.schema.config import Config
from recollect.config.schema.correction import CorrectionSettings
from recollect.train.batch import Batch, ScoredRow, minibatches
from recollect.trajectory import Trajectory

Scorer = Callable[[Sequence[Trajectory]], list[NDArray[np.float32]]]


def update_parts(batch: Batch, config: Config) -> list[tuple[ScoredRow, ...]]:
    """Rows of each optimiser step of an update, in order."""
    train, replay = config.train, config.replay
    fresh = minibatches(batch.training, train.minibatches)
    if replay.buffer_place == "among":
        both = zip_longest(fresh, batch.extra, fillvalue=())
        return [(*rows, *stored) for rows, stored in both] * train.epochs
    return fresh * train.epochs + list(batch.extra) * replay.buffer_epochs


def recomputed(
    batch: Batch, correction: CorrectionSettings, logprobs: Scorer
) -> dict[str, NDArray[np.float32]]:
    """Log-probs that stand in for the recorded ones of stored rows, where that is asked for."""
    if correction.old_logprobs == "recorded":
        return {}
    every = (*batch.training, *(row for update in batch.extra for row in update))
    stored = {
        row.trajectory.id: row.trajectory
        for row in every
        if row.pick is not None or row.trajectory.logprobs is None
    }
    return dict(zip(stored, logprobs(list(stored.values())), strict=True))


def step_denominator(rows: Sequence[ScoredRow], mode: Mode) -> float:
    """What the losses of an optimiser step are divided by: its sampled tokens, or its rows."""
    tokens = sum(row.trajectory.sampled_count for row in rows)
    return batch_denominator(tokens, len(rows), mode=mode)

"""Stored rows and runs with replay, for the tests of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from recollect.replay.pick import Pick
from recollect.train.batch import Batch, ScoredRow
from recollect.trajectory import Trajectory
from recollect.types import TrajectoryId

# Every mode at once, on a run of a few steps; `worlds.Letters` has successes and failures.
EVERYTHING = (
    "replay.modes=[mix,repair,buffer]",
    "replay.buffer_rows=3",
    "replay.mix_ratio=0.5",
    "pool.max_uses=3",
    "draw.choice=random",
    "draw.beta=0.5",
)


def stored(
    row: Trajectory, slot: int, *, drift: float = 0.3, weight: float = 1.0, mode: str = "mix"
) -> Pick:
    """A row as if an older policy had sampled it: its ratios are about exp(drift), and vary."""
    assert row.logprobs is not None
    noise = np.random.default_rng([slot, 5]).normal(0, 0.2, row.logprobs.size)
    older = np.minimum(row.logprobs - drift + noise, 0.0).astype("f4")
    old = replace(row, id=TrajectoryId(f"stored-{slot}"), logprobs=older)
    return Pick(slot, old, row.group, mode, 2, 0.5, "test", weight)


def batch_of(fresh: Sequence[Trajectory], picks: Sequence[Pick]) -> Batch:
    """Rows with advantages by turns of both signs."""
    rows = [ScoredRow(row, 1.0 - n % 3, True) for n, row in enumerate(fresh)]
    rows += [ScoredRow(p.trajectory, 1.5 - 2.0 * (p.slot % 2), True, p) for p in picks]
    return Batch(tuple(rows))

"""Two engines, one policy: how far the sampler's log-probs are from the trainer's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recollect.config.schema.rollout import RolloutSettings
from recollect.train.batch import ScoredRow
from recollect.train.replayed import Ratios
from recollect.train.stripped import is_stripped
from recollect.trajectory import Trajectory

Logprobs = Callable[[Sequence[Trajectory]], list[NDArray[np.float32]]]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Ratios of trainer to sampler over fresh tokens, and the share of them above the cap.

    The share is None where nothing is capped.
    """

    ratios: Ratios
    capped: float | None


@dataclass(frozen=True, slots=True)
class Compared:
    """What the trainer makes of fresh rows before its first update.

    `old` are its own log-probs by trajectory id, which stand in for the sampler's where those are
    corrected: the policy ratio is then taken against what the trainer can compute again.
    """

    mismatch: Mismatch | None = None
    old: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


def cap_of(rollout: RolloutSettings) -> float | None:
    """Largest weight of a fresh token; None where the trainer's own model samples, or none is set.

    A model that samples for itself agrees with itself: there is nothing to correct.
    """
    return None if rollout.engine == "hf" else rollout.mismatch_cap


def compare(rows: Sequence[ScoredRow], rollout: RolloutSettings, logprobs: Logprobs) -> Compared:
    """Compare samplers on fresh rows with the prompt that they were sampled from.

    Rows without signal are compared, too: they tell as much about the engines. A row that lost its
    notes has another prompt now and a correction of its own, as a stored row has.
    """
    if rollout.engine == "hf":
        return Compared()
    fresh = [row.trajectory for row in rows if row.pick is None and not is_stripped(row)]
    if not fresh:
        return Compared()
    found = logprobs(fresh)
    parts = []
    for trajectory, now in zip(fresh, found, strict=True):
        assert trajectory.logprobs is not None, "a fresh row has log-probs"
        parts.append(now.astype(np.float64) - trajectory.logprobs)
    drift = np.concatenate(parts)
    cap = cap_of(rollout)
    capped = None if cap is None else float(np.mean(drift > np.log(cap)))
    mismatch = Mismatch(Ratios.of(drift), capped)
    if cap is None:
        return Compared(mismatch)
    return Compared(mismatch, {str(t.id): now for t, now in zip(fresh, found, strict=True)})

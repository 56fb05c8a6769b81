"""Trajectories from plain lists, for tests that need no environment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recollect.trajectory import Trajectory
from recollect.types import (
    GroupId,
    Origin,
    Reward,
    RunId,
    Sampling,
    Segment,
    SegmentKind,
    TaskKey,
    TrajectoryId,
)


def make_row(
    tokens: Sequence[int],
    sampled: Sequence[bool],
    name: str = "row",
    group: str = "group",
    reward: float = 0.0,
    logprobs: Sequence[float] | None = None,
) -> Trajectory:
    """Make a fresh trajectory: everything from the first sampled token on is the assistant's."""
    mask = np.array(sampled, dtype=np.bool_)
    count = int(mask.sum())
    first = int(np.flatnonzero(mask)[0])
    segments = [Segment(SegmentKind.USER, 0, first)] if first else []
    segments.append(Segment(SegmentKind.ASSISTANT, first, len(tokens)))
    return Trajectory(
        id=TrajectoryId(name),
        task=TaskKey(f"task-{group}"),
        run=RunId("run"),
        step=1,
        group=GroupId(group),
        origin=Origin.FRESH,
        policy_version=0,
        tokens=np.array(tokens, dtype=np.int32),
        sampled=mask,
        logprobs=np.full(count, -1.0, "f4") if logprobs is None else np.array(logprobs, "f4"),
        entropies=np.full(count, 0.5, "f4"),
        segments=tuple(segments),
        reward=Reward(reward),
        success=reward > 0.5,
        sampling=Sampling(),
        tokenizer="t",
    )

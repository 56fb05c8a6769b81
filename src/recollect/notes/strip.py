"""Taking notes out of a trajectory: dropping the spans of their segments, exactly.

What is left is, token for token, the prompt that the same task has without notes, followed by what
was sampled with them. Its log-probs are still those that were recorded under the notes: the policy
ratio of such a row is pi_now(token | bare prompt) / pi_then(token | prompt with notes).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recollect.trajectory import Trajectory
from recollect.types import Origin, Segment, SegmentKind


def has_notes(trajectory: Trajectory) -> bool:
    """Tell whether notes stand in a row's prompt."""
    return any(segment.kind is SegmentKind.NOTE for segment in trajectory.segments)


def stripped(trajectory: Trajectory) -> Trajectory:
    """Make the view of a row that trains without its notes; never stored.

    Tokens, sampled mask, log-probs and entropies are those of the row without notes. What the
    chat template writes behind the message that had them counts to the segment that follows.
    """
    keep = np.ones(trajectory.tokens.size, dtype=np.bool_)
    segments: list[Segment] = []
    gone = 0
    for segment in trajectory.segments:
        if segment.kind is SegmentKind.NOTE:
            keep[segment.start : segment.end] = False
            gone += segment.end - segment.start
        else:
            segments.append(replace(segment, start=segment.start - gone, end=segment.end - gone))
    guided = trajectory.origin is Origin.GUIDED
    return replace(
        trajectory,
        tokens=trajectory.tokens[keep],
        sampled=trajectory.sampled[keep],
        segments=tuple(segments),
        notes=(),
        origin=Origin.FRESH if guided else trajectory.origin,
    )

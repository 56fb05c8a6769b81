"""A sample: one row on its way into a training batch or into the store, fresh or replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.canonical import digest
from recollect.errors import InvalidRecord
from recollect.integrations.agentevolver.host import HostRow
from recollect.integrations.agentevolver.names import uid_of
from recollect.trajectory import Floats, Mask, Tokens, Trajectory
from recollect.types import (
    GroupId,
    Origin,
    Reward,
    RunId,
    Segment,
    SegmentKind,
    StopReason,
    Task,
    TrajectoryId,
    group_id,
)

_SPLIT = "prompt_length"  # in a stored row's `extra`: the split is data, not a guess


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A row with its names. Nothing about it depends on where it stands in a list.

    `tokens` int32[T] are prompt and response, the first `prompt_length` of them the prompt;
    `sampled` bool[T] is the host's loss mask. `logprobs` and `entropies` float32[S] belong to
    the S sampled tokens in order; None = not known. `is_experience_replay` marks a row that came
    from the pool; `stored` is then its record.
    """

    id: TrajectoryId
    task: Task
    group: GroupId
    step: int
    policy_version: int | None
    tokens: Tokens
    prompt_length: int
    sampled: Mask
    segments: tuple[Segment, ...]
    reward: float
    success: bool
    logprobs: Floats | None = None
    entropies: Floats | None = None
    is_experience_replay: bool = False
    stored: Trajectory | None = None

    @property
    def uid(self) -> str:
        """The name of its task towards the host."""
        return uid_of(self.task)

    @property
    def prompt_ids(self) -> Tokens:
        """Tokens before the split."""
        return self.tokens[: self.prompt_length]

    @property
    def response_ids(self) -> Tokens:
        """Tokens from the split on, those of the environment included."""
        return self.tokens[self.prompt_length :]

    @property
    def loss_mask(self) -> Mask:
        """Which response tokens the policy sampled."""
        return self.sampled[self.prompt_length :]

    @property
    def entropy(self) -> float | None:
        """Mean entropy over the sampled tokens; None where it is not known."""
        if self.entropies is None or not self.entropies.size:
            return None
        return float(np.mean(self.entropies, dtype=np.float64))

    def with_values(self, logprobs: Floats | None, entropies: Floats | None) -> Sample:
        """Fill in what is not known; what was recorded while sampling stays."""
        return replace(
            self,
            logprobs=logprobs if self.logprobs is None else self.logprobs,
            entropies=entropies if self.entropies is None else self.entropies,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """Where a run is: its step, and the version of the policy that samples in it."""

    run: RunId
    number: int
    policy_version: int


def from_host(row: HostRow, task: Task, step: Step, success_threshold: float) -> Sample:
    """Make the sample of a fresh attempt; InvalidRecord names what does not fit together."""
    id_ = TrajectoryId(
        digest("trajectory", step.run, step.number, task.key, f"{row.data_id}/{row.rollout_id}")
    )
    prompt, response = _ids(row.prompt_ids, id_), _ids(row.response_ids, id_)
    mask = np.asarray(row.loss_mask)
    if mask.shape != response.shape or not ((mask == 0) | (mask == 1)).all():
        problem = f"must be 0 or 1 for each of {response.size} response tokens"
        raise InvalidRecord("loss_mask", problem, id_)
    if not mask.any():
        raise InvalidRecord("loss_mask", "marks no token: nothing was sampled", id_)
    sampled = np.concatenate((np.zeros(prompt.size, np.bool_), mask.astype(np.bool_)))
    reward = float(row.reward)
    return Sample(
        id=id_,
        task=task,
        group=group_id(step.run, step.number, task.key),
        step=step.number,
        policy_version=step.policy_version if row.policy_version is None else row.policy_version,
        tokens=np.concatenate((prompt, response)),
        prompt_length=int(prompt.size),
        sampled=sampled,
        segments=_segments(row, id_, int(prompt.size), mask.astype(np.bool_)),
        reward=reward,
        success=reward >= success_threshold if row.success is None else bool(row.success),
        logprobs=_values("log_probs", row.log_probs, mask, id_),
        entropies=_values("entropies", row.entropies, mask, id_),
    )


def from_store(stored: Trajectory, task: Task, group: GroupId) -> Sample:
    """Make the sample of a stored row that joins a group of this step. Copies nothing."""
    first = int(np.argmax(stored.sampled))
    split = stored.extra.get(_SPLIT, first)
    return Sample(
        id=stored.id,
        task=task,
        group=group,
        step=stored.step,
        policy_version=stored.policy_version,
        tokens=stored.tokens,
        prompt_length=split if isinstance(split, int) and 0 <= split <= first else first,
        sampled=stored.sampled,
        segments=stored.segments,
        reward=stored.reward.value,
        success=stored.success,
        logprobs=stored.logprobs,
        entropies=stored.entropies,
        is_experience_replay=True,
        stored=stored,
    )


def to_record(sample: Sample, run: RunId, **fingerprints: Any) -> Trajectory:
    """Make the record that is stored; without log-probs it is a demo."""
    if sample.stored is not None:
        return sample.stored
    is_demo = sample.logprobs is None
    if is_demo:
        fingerprints["sampling"] = None
    return Trajectory(
        id=sample.id,
        task=sample.task.key,
        run=run,
        step=sample.step,
        group=sample.group,
        origin=Origin.DEMO if is_demo else Origin.FRESH,
        policy_version=None if is_demo else sample.policy_version,
        tokens=sample.tokens,
        sampled=sample.sampled,
        logprobs=sample.logprobs,
        entropies=sample.entropies,
        segments=sample.segments,
        reward=Reward(sample.reward),
        success=sample.success,
        stop=StopReason.UNKNOWN,
        extra={_SPLIT: sample.prompt_length},
        **fingerprints,
    )


def _ids(given: Sequence[int], row: str) -> NDArray[np.int32]:
    ids = np.asarray(given, dtype=np.int64)
    if ids.ndim != 1 or (ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < 2**31):
        raise InvalidRecord("tokens", "must be a list of ids from 0 to 2147483647", row)
    return ids.astype(np.int32)


def _values(
    name: str, given: Sequence[float] | None, mask: NDArray[Any], row: str
) -> Floats | None:
    if given is None:
        return None
    values = np.asarray(given, dtype=np.float32)
    if values.shape != mask.shape:
        problem = f"has {values.size} values for {mask.size} response tokens"
        raise InvalidRecord(name, problem, row)
    found = values[mask.astype(np.bool_)]
    if not np.isfinite(found).all():
        raise InvalidRecord(name, "is not finite at a sampled token; give None if unknown", row)
    return found


def _kind(given: str, row: str) -> SegmentKind:
    try:
        return SegmentKind(given)
    except ValueError:
        kinds = ", ".join(kind.value for kind in SegmentKind)
        raise InvalidRecord("segments", f"{given!r} is no kind; use one of {kinds}", row) from None


def _segments(row: HostRow, id_: str, prompt: int, mask: Mask) -> tuple[Segment, ...]:
    """Tile the tokens: as the host says, or by prompt and loss mask."""
    spans: list[tuple[SegmentKind, int]] = []
    if row.segments is not None:
        spans = [(_kind(kind, id_), int(count)) for kind, count in row.segments]
    else:
        if prompt:
            spans.append((SegmentKind.USER, prompt))
        cuts = [0, *(np.flatnonzero(mask[1:] != mask[:-1]) + 1), mask.size]
        for start, end in pairwise(cuts):
            kind = SegmentKind.ASSISTANT if mask[start] else SegmentKind.TOOL
            spans.append((kind, int(end - start)))
    segments, at = [], 0
    for kind, count in spans:
        segments.append(Segment(kind, at, at + count))
        at += count
    return tuple(segments)

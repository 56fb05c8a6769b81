"""The trajectory: one attempt at a task, exactly as it was sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.canonical import Json
from recollect.errors import InvalidRecord
from recollect.types import (
    GroupId,
    NoteSpan,
    Origin,
    Reward,
    RunId,
    Sampling,
    Segment,
    SegmentKind,
    StopReason,
    TaskKey,
    TrajectoryId,
)
from recollect.validation import check_count, check_finite, check_id, check_json, check_text

Tokens: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float32]

# A float32 log-prob computed as logit - logsumexp may round a hair above zero.
_LOGPROB_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """Token ids, masks, behaviour log-probs and reward of one attempt.

    Shapes: `tokens` int32[T], `sampled` bool[T], `logprobs` and `entropies` float32[S] for
    the S sampled tokens in order, under the policy and the prompt that sampled them (natural
    logarithm, at the recorded temperature). Promises, checked at construction:

    - segments tile the tokens in order, sampled tokens lie in assistant segments only, and the
      first token is never one of them: nothing would be there to predict it from;
    - log-probs are finite and <= 0, entropies finite and >= 0, the reward finite;
    - fresh and guided rows have log-probs, a policy version and a tokenizer fingerprint;
    - a demo has no log-probs. It may be text only (no tokens): to be read, never trained on;
    - arrays are read-only.

    Two trajectories are equal when every field is, arrays bit for bit.
    """

    id: TrajectoryId
    task: TaskKey
    run: RunId
    step: int
    group: GroupId
    origin: Origin
    policy_version: int | None
    tokens: Tokens
    sampled: Mask
    logprobs: Floats | None
    entropies: Floats | None
    segments: tuple[Segment, ...]
    reward: Reward
    success: bool
    stop: StopReason = StopReason.DONE
    sampling: Sampling | None = None
    notes: tuple[NoteSpan, ...] = ()
    tokenizer: str = ""
    environment_version: str = "1"
    reward_version: str = "1"
    started: float = 0.0
    finished: float = 0.0
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_scalars(self)
        _freeze_arrays(self)
        _check_segments(self)
        _check_sampled(self)
        _check_origin(self)
        _check_notes(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def sampled_count(self) -> int:
        """How many tokens the policy sampled."""
        if self.logprobs is not None:
            return int(self.logprobs.size)
        return int(np.count_nonzero(self.sampled))

    @property
    def mean_entropy(self) -> float | None:
        """Mean entropy over the sampled tokens only; None where it was not recorded."""
        return _mean(self.entropies)

    @property
    def mean_logprob(self) -> float | None:
        """Mean behaviour log-prob over the sampled tokens; None where it was not recorded."""
        return _mean(self.logprobs)


def _mean(values: Floats | None) -> float | None:
    if values is None or values.size == 0:
        return None
    # The sum that numpy's own mean divides, without its checks: this runs for every row stored.
    return float(np.add.reduce(values, dtype=np.float64)) / values.size


def _same(mine: object, theirs: object) -> bool:
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        return mine.dtype == theirs.dtype and mine.tobytes() == theirs.tobytes()
    return bool(mine == theirs)


def _check_scalars(t: Trajectory) -> None:
    for name in ("id", "task", "run", "group"):
        check_id(name, getattr(t, name))
    check_count("step", t.step)
    if not isinstance(t.origin, Origin):
        raise InvalidRecord("origin", f"{t.origin!r} is not an origin", t.id)
    if not isinstance(t.stop, StopReason):
        raise InvalidRecord("stop", f"{t.stop!r} is not a stop reason", t.id)
    if not isinstance(t.success, bool):
        raise InvalidRecord("success", f"expected true or false, got {t.success!r}", t.id)
    if not isinstance(t.reward, Reward):
        raise InvalidRecord("reward", f"expected a reward, got {type(t.reward).__name__}", t.id)
    if t.sampling is not None and not isinstance(t.sampling, Sampling):
        raise InvalidRecord("sampling", f"expected one, got {type(t.sampling).__name__}", t.id)
    for name in ("tokenizer", "environment_version", "reward_version"):
        check_text(name, getattr(t, name))
    for name in ("started", "finished"):
        check_finite(name, getattr(t, name))
        object.__setattr__(t, name, float(getattr(t, name)))
    check_json("extra", t.extra)
    object.__setattr__(t, "extra", dict(t.extra))


def _freeze_arrays(t: Trajectory) -> None:
    """Bring arrays to their dtype without changing a value, and make them read-only."""
    _freeze(t, "tokens", np.dtype("<i4"), (np.dtype(np.int32), np.dtype(np.int64)))
    _freeze(t, "sampled", np.dtype(np.bool_), (np.dtype(np.bool_),))
    for name in ("logprobs", "entropies"):
        if getattr(t, name) is not None:
            _freeze(t, name, np.dtype("<f4"), (np.dtype(np.float32),))
    if t.tokens.size and int(t.tokens.min()) < 0:
        raise InvalidRecord("tokens", "holds a negative id", t.id)


def _freeze(
    t: Trajectory, name: str, dtype: np.dtype[np.generic], allowed: tuple[np.dtype[np.generic], ...]
) -> None:
    given = getattr(t, name)
    if not isinstance(given, np.ndarray) or given.ndim != 1 or given.dtype not in allowed:
        got = f"{given.dtype}{list(given.shape)}" if isinstance(given, np.ndarray) else type(given)
        raise InvalidRecord(name, f"expected a 1-D {dtype.name} array, got {got}", t.id)
    if given.dtype.itemsize > dtype.itemsize and given.size:
        # min() as well as max(): the smallest int64 has no positive twin for abs() to find.
        if int(given.max()) > 2**31 - 1:
            raise InvalidRecord(name, "holds an id above 2147483647", t.id)
        if int(given.min()) < 0:
            raise InvalidRecord(name, "holds a negative id", t.id)
    # A private copy, unless nobody can write to the given one: frozen must mean frozen.
    owned = np.ascontiguousarray(given.astype(dtype, copy=_can_change(given)))
    owned.setflags(write=False)
    object.__setattr__(t, name, owned)


def _can_change(array: object) -> bool:
    """Tell whether somebody can write to an array, or to the one that it is a view of."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return array is not None and not isinstance(array, bytes)


def _is_tuple_of(value: object, kind: type) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, kind) for item in value)


def _check_segments(t: Trajectory) -> None:
    if not t.segments or not _is_tuple_of(t.segments, Segment):
        raise InvalidRecord("segments", "must be a non-empty tuple of segments", t.id)
    position = 0
    for index, segment in enumerate(t.segments):
        if segment.start != position or segment.end < segment.start:
            where = f"segments[{index}]"
            problem = f"spans {segment.start}..{segment.end} but must start at {position}"
            raise InvalidRecord(where, problem, t.id)
        position = segment.end
    if position != t.tokens.size:
        problem = f"cover {position} of {t.tokens.size} tokens"
        raise InvalidRecord("segments", problem, t.id)


def _check_sampled(t: Trajectory) -> None:
    if t.sampled.size != t.tokens.size:
        problem = f"has {t.sampled.size} entries for {t.tokens.size} tokens"
        raise InvalidRecord("sampled", problem, t.id)
    count = inside = int(np.count_nonzero(t.sampled))
    if count:
        assistant = (s for s in t.segments if s.kind is SegmentKind.ASSISTANT)
        inside = sum(int(np.count_nonzero(t.sampled[s.start : s.end])) for s in assistant)
    if inside != count:
        raise InvalidRecord("sampled", f"marks {count - inside} tokens nobody sampled", t.id)
    if count and t.sampled[0]:
        raise InvalidRecord("sampled", "marks the first token: it answers nothing", t.id)
    for name, low, high in (
        ("logprobs", -np.inf, _LOGPROB_ROUNDING),
        ("entropies", -_LOGPROB_ROUNDING, np.inf),
    ):
        values = getattr(t, name)
        if values is None:
            continue
        if values.size != count:
            problem = f"has {values.size} values for {count} sampled tokens"
            raise InvalidRecord(name, problem, t.id)
        if not np.isfinite(values).all():
            raise InvalidRecord(name, "holds a value that is not finite", t.id)
        if count and not (low <= values.min() and values.max() <= high):
            problem = "must be <= 0" if name == "logprobs" else "must be >= 0"
            raise InvalidRecord(name, problem, t.id)


def _check_origin(t: Trajectory) -> None:
    if t.origin is Origin.DEMO:
        if t.logprobs is not None:
            raise InvalidRecord("logprobs", "a demo has none; a row with log-probs is fresh", t.id)
        if t.policy_version is not None:
            raise InvalidRecord("policy_version", "a demo has none", t.id)
        return
    if t.logprobs is None:
        raise InvalidRecord("logprobs", "are missing; a row without them is a demo", t.id)
    if t.policy_version is None:
        raise InvalidRecord("policy_version", "is missing", t.id)
    check_count("policy_version", t.policy_version)
    if t.sampling is None:
        raise InvalidRecord("sampling", "is missing: log-probs mean nothing without it", t.id)
    if not t.tokenizer:
        raise InvalidRecord("tokenizer", "is missing: tokens mean nothing without it", t.id)
    if t.sampled_count == 0:
        raise InvalidRecord("sampled", "marks no token: nothing was sampled", t.id)


def _check_notes(t: Trajectory) -> None:
    if not _is_tuple_of(t.notes, NoteSpan):
        raise InvalidRecord("notes", "must be a tuple of note spans", t.id)
    spans = {(s.start, s.end) for s in t.segments if s.kind is SegmentKind.NOTE}
    for note in t.notes:
        if (note.start, note.end) not in spans:
            problem = f"{note.note} at {note.start}..{note.end} is not a note segment"
            raise InvalidRecord("notes", problem, t.id)
    if t.origin is Origin.GUIDED and not t.notes:
        raise InvalidRecord("notes", "a guided row names the notes that guided it", t.id)

"""What goes into a store and what comes out, apart from the records themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.ledger import (
    Cursor,
    Draw,
    Event,
    Group,
    Mark,
    Note,
    NoteLink,
    Run,
    Score,
    TaskState,
    Use,
)
from recollect.note_ledger import Distillation, NoteMark, NoteTrial
from recollect.trajectory import Trajectory
from recollect.types import GroupId, Origin, RunId, Status, Task, TaskKey, TrajectoryId


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything one transaction writes. Either all of it becomes durable or none."""

    runs: Sequence[Run] = ()
    tasks: Sequence[Task] = ()
    groups: Sequence[Group] = ()
    trajectories: Sequence[Trajectory] = ()
    task_states: Sequence[TaskState] = ()
    draws: Sequence[Draw] = ()
    uses: Sequence[Use] = ()
    scores: Sequence[Score] = ()
    marks: Sequence[Mark] = ()
    notes: Sequence[Note] = ()
    links: Sequence[NoteLink] = ()
    note_marks: Sequence[NoteMark] = ()
    note_trials: Sequence[NoteTrial] = ()
    distillations: Sequence[Distillation] = ()
    events: Sequence[Event] = ()
    cursors: Sequence[Cursor] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a commit did: rows that were new, rows known already, the new change number."""

    added: int
    known: int
    change: int


@dataclass(frozen=True, slots=True)
class Row:
    """The metadata of a stored trajectory: what can be listed, filtered and weighed.

    `seq` is the order of arrival, never reused. `uses` counts uses (draws that a training step
    applied, however many passes) and `last_use` is the step of the latest. `advantage` and
    `priority` are those of its newest score, None where it was never scored.
    """

    seq: int
    id: TrajectoryId
    task: TaskKey
    environment: str
    domain: str
    run: RunId
    step: int
    group: GroupId
    origin: Origin
    policy_version: int | None
    reward: float
    success: bool
    tokens: int
    sampled: int
    entropy: float | None
    logprob: float | None
    bytes: int
    uses: int
    last_use: int | None
    advantage: float | None
    priority: float | None
    status: Status
    pinned: bool
    fenced: bool
    created: float


@dataclass(frozen=True, slots=True)
class Query:
    """Which rows to list; None means any, bounds are inclusive.

    Fenced rows match only where `fenced` asks for them, and then nothing else does.
    """

    ids: Sequence[TrajectoryId] | None = None
    task: TaskKey | None = None
    run: RunId | None = None
    domain: str | None = None
    origin: Origin | None = None
    status: Status | None = Status.LIVE
    success: bool | None = None
    pinned: bool | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    min_version: int | None = None
    max_version: int | None = None
    min_uses: int | None = None
    max_uses: int | None = None
    min_step: int | None = None
    max_step: int | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in the asked order, and where the next page begins (None = this was the last)."""

    rows: tuple[Row, ...]
    next: int | None


# One record per row, as the pool index keeps it. Immutable facts of a trajectory, packed when
# it is written, so that a million rows load without a million times eighteen Python objects.
PACK = np.dtype(
    [
        ("task", "<i4"),
        ("run", "<i4"),
        ("provenance", "<i4"),
        ("step", "<i4"),
        ("version", "<i4"),  # -1 = none (a demo)
        ("tokens", "<i4"),
        ("sampled", "<i4"),
        ("bytes", "<i4"),
        ("reward", "<f8"),
        ("entropy", "<f4"),  # NaN = not recorded
        ("logprob", "<f4"),  # NaN = not recorded
        ("success", "?"),
        ("origin", "u1"),  # position in `tuple(Origin)`
    ]
)


@dataclass(frozen=True, slots=True)
class Columns:
    """A block of live rows for the pool index; all arrays have one entry per row."""

    seq: NDArray[np.int64]
    pack: NDArray[Any]
    uses: NDArray[np.int32]
    last_use: NDArray[np.int32]  # -1 = never; see `StoreReader.changes` for whose
    pinned: NDArray[np.bool_]
    # Of the newest score; NaN = never scored, or not measured.
    advantage: NDArray[np.float32]
    priority: NDArray[np.float32]
    ess: NDArray[np.float32]
    ratio: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Changes:
    """What a pool index must do to be up to date with `change`.

    `reset` means the store can no longer tell the difference: forget everything, then add.
    `gone` lists rows that are no longer live; `added` are rows that are (new or changed).
    """

    change: int
    reset: bool
    added: Iterator[Columns]
    gone: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Fingerprints that decide whether a row may train here."""

    tokenizer: str
    environment_version: str
    reward_version: str


@dataclass(frozen=True, slots=True)
class NoteVersion:
    """How far the notes of a store have come; equal ones mean that nothing about them changed.

    `note` and `mark` are the numbers given out last, `fence` that of the last fence.
    """

    note: int
    mark: int
    fence: int


@dataclass(frozen=True, slots=True)
class Fence:
    """Everything of `run` after `after_step` was set aside: kept, marked, never drawn."""

    id: int
    run: RunId
    after_step: int
    reason: str
    trajectories: int


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What physical removal freed."""

    trajectories: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Something `verify` found wrong. `trajectory` is set where one record is to blame."""

    where: str
    problem: str
    trajectory: TrajectoryId | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """Totals over a store, for people."""

    path: str
    schema: int
    journal: str
    file_bytes: int
    trajectories: int
    payload_bytes: int
    fenced: int
    by_status: dict[str, int] = field(default_factory=dict)
    by_origin: dict[str, int] = field(default_factory=dict)
    domains: tuple[DomainStats, ...] = ()
    runs: int = 0
    tasks: int = 0
    notes: int = 0
    draws: int = 0
    uses: int = 0


@dataclass(frozen=True, slots=True)
class DomainStats:
    """Live rows of one domain."""

    domain: str
    tasks: int
    trajectories: int
    successes: int
    mean_reward: float
    tokens: int
    bytes: int
    mean_uses: float
    newest_version: int | None

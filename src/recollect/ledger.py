"""What a run writes down beside its trajectories: groups, states, draws, uses, scores, notes.

All records are frozen and check themselves. Whatever carries a run and a step belongs to
that step, and is set aside with it when the step is fenced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.canonical import Json
from recollect.errors import InvalidRecord
from recollect.types import Action, GroupId, LinkKind, NoteId, RunId, TaskKey, TrajectoryId
from recollect.validation import (
    check_count,
    check_finite,
    check_id,
    check_json,
    check_step,
    check_text,
)


@dataclass(frozen=True, slots=True)
class Run:
    """One training run (or one import) that writes into a store."""

    id: RunId
    seed: int = 0
    config: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_id("run.id", self.id)
        check_count("run.seed", self.seed, 2**63 - 1)
        check_json("run.config", self.config)


@dataclass(frozen=True, slots=True)
class Group:
    """The rows that share a baseline in one step of one run."""

    id: GroupId
    run: RunId
    step: int
    task: TaskKey
    policy_version: int

    def __post_init__(self) -> None:
        check_id("group.id", self.id)
        check_id("group.run", self.run)
        check_id("group.task", self.task)
        check_count("group.step", self.step)
        check_count("group.policy_version", self.policy_version)


@dataclass(frozen=True, slots=True)
class TaskState:
    """What a run knows of a task after a step: its last fresh group, and whether it is retired.

    The success rate (the task's bucket) is successes / rows. `retest_step` is when a retired
    task is due again. `data` is room for what replay wants to remember beside that.
    """

    run: RunId
    task: TaskKey
    step: int
    successes: int
    rows: int
    retired: bool = False
    retest_step: int | None = None
    data: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_id("task_state.run", self.run)
        check_id("task_state.task", self.task)
        for name in ("step", "successes", "rows"):
            check_count(f"task_state.{name}", getattr(self, name))
        if self.successes > self.rows:
            raise InvalidRecord("task_state.successes", f"{self.successes} of {self.rows} rows")
        if not isinstance(self.retired, bool):
            raise InvalidRecord("task_state.retired", f"expected true or false, got {self.retired}")
        if self.retest_step is not None:
            check_count("task_state.retest_step", self.retest_step)
        check_json("task_state.data", self.data)


@dataclass(frozen=True, slots=True)
class Draw:
    """A decision to train on a stored row: which, in which slot of the step, how likely, why."""

    run: RunId
    step: int
    slot: int
    trajectory: TrajectoryId
    group: GroupId
    age: int
    probability: float
    reason: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        for name in ("run", "trajectory", "group"):
            check_id(f"draw.{name}", getattr(self, name))
        for name in ("step", "slot", "age"):
            check_count(f"draw.{name}", getattr(self, name))
        check_finite("draw.probability", self.probability)
        if not 0 < self.probability <= 1:
            raise InvalidRecord("draw.probability", f"{self.probability} is outside (0, 1]")
        check_finite("draw.weight", self.weight)
        check_text("draw.reason", self.reason)


_MEASURES = (
    "ratio_mean",
    "ratio_p50",
    "ratio_p99",
    "ratio_max",
    "ess",
    "clip_share",
    "loss_share",
)


@dataclass(frozen=True, slots=True)
class Use:
    """A draw that an optimiser step really applied, with what it did there (None = unmeasured)."""

    run: RunId
    step: int
    slot: int
    trajectory: TrajectoryId
    epochs: int = 1
    ratio_mean: float | None = None
    ratio_p50: float | None = None
    ratio_p99: float | None = None
    ratio_max: float | None = None
    ess: float | None = None
    clip_share: float | None = None
    loss_share: float | None = None

    def __post_init__(self) -> None:
        check_id("use.run", self.run)
        check_id("use.trajectory", self.trajectory)
        for name in ("step", "slot", "epochs"):
            check_count(f"use.{name}", getattr(self, name))
        for name in _MEASURES:
            if getattr(self, name) is not None:
                check_finite(f"use.{name}", getattr(self, name))


@dataclass(frozen=True, slots=True)
class Score:
    """What a training step found out about a row. The newest score of a row counts.

    `advantage` is the one it was trained with, `priority` (>= 0) how much replay wants it
    again. `ess`, in (0, 1], is the effective sample size of its policy ratios as a share of
    its tokens and `ratio` their 99 % quantile (None = unmeasured).
    """

    run: RunId
    step: int
    trajectory: TrajectoryId
    advantage: float
    priority: float
    ess: float | None = None
    ratio: float | None = None

    def __post_init__(self) -> None:
        check_id("score.run", self.run)
        check_id("score.trajectory", self.trajectory)
        check_count("score.step", self.step)
        check_finite("score.advantage", self.advantage)
        for name in ("priority", "ess", "ratio"):
            value = getattr(self, name)
            if value is None and name != "priority":
                continue
            check_finite(f"score.{name}", value)
            if value < 0:
                raise InvalidRecord(f"score.{name}", f"{value} is negative")
        if self.ess is not None and not 0 < self.ess <= 1:
            raise InvalidRecord("score.ess", f"{self.ess} is outside (0, 1]")


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened to a stored row after it was written.

    A mark made by a training step carries its run and step, so that fencing the step undoes
    it. A person's mark carries neither and stays.
    """

    trajectory: TrajectoryId
    action: Action
    reason: str
    run: RunId | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        check_id("mark.trajectory", self.trajectory)
        check_text("mark.reason", self.reason)
        if not isinstance(self.action, Action):
            raise InvalidRecord("mark.action", f"{self.action!r} is not an action")
        check_step("mark", self.run, self.step)


@dataclass(frozen=True, slots=True)
class Note:
    """A piece of textual experience: when to use it and what it says."""

    id: NoteId
    content: str
    when_to_use: str = ""
    workspace: str = "default"
    author: str = ""
    trust: float = 1.0
    run: RunId | None = None
    step: int | None = None
    data: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_id("note.id", self.id)
        for name in ("content", "when_to_use", "workspace", "author"):
            check_text(f"note.{name}", getattr(self, name))
        check_finite("note.trust", self.trust)
        check_step("note", self.run, self.step)
        check_json("note.data", self.data)


@dataclass(frozen=True, slots=True)
class NoteLink:
    """A note and a trajectory that belong together, found from either side."""

    note: NoteId
    trajectory: TrajectoryId
    kind: LinkKind
    run: RunId | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        check_id("note_link.note", self.note)
        check_id("note_link.trajectory", self.trajectory)
        if not isinstance(self.kind, LinkKind):
            raise InvalidRecord("note_link.kind", f"{self.kind!r} is not a kind of link")
        check_step("note_link", self.run, self.step)


@dataclass(frozen=True, slots=True)
class Event:
    """Something worth telling about a step. Equal events of one step are one event."""

    run: RunId
    step: int
    kind: str
    data: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_id("event.run", self.run)
        check_count("event.step", self.step)
        check_text("event.kind", self.kind)
        check_json("event.data", self.data)


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a run has come: its newest recorded step, and what it needs to go on from there."""

    run: RunId
    step: int
    policy_version: int
    data: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_id("cursor.run", self.run)
        check_count("cursor.step", self.step)
        check_count("cursor.policy_version", self.policy_version)
        check_json("cursor.data", self.data)

"""What a group of attempts teaches: its best and its worst, and how instructive they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from recollect.notes.note import NoteKind
from recollect.trajectory import Trajectory
from recollect.types import SegmentKind, Task, TaskKey

_ORDER = (NoteKind.COMPARISON, NoteKind.SUCCESS, NoteKind.FAILURE)


@dataclass(frozen=True, slots=True)
class Study:
    """Attempts at one task: the best (None if none succeeded) and the worst (None if all did)."""

    task: Task
    best: Trajectory | None
    worst: Trajectory | None
    success: float  # rate of the group

    @property
    def kind(self) -> NoteKind:
        """What can be learnt."""
        if self.best is None:
            return NoteKind.FAILURE
        return NoteKind.SUCCESS if self.worst is None else NoteKind.COMPARISON

    @property
    def rows(self) -> tuple[Trajectory, ...]:
        """The attempts it looks at, the good one first."""
        return tuple(row for row in (self.best, self.worst) if row is not None)

    @property
    def request(self) -> str:
        """What the task asks: its query, or the first thing the user says."""
        if self.task.query:
            return self.task.query
        said = (s.text for row in self.rows for s in row.segments if s.kind is SegmentKind.USER)
        return next(said, "")


def turns_of(row: Trajectory) -> list[str]:
    """What the agent said, turn by turn."""
    return [s.text for s in row.segments if s.kind is SegmentKind.ASSISTANT and s.text.strip()]


def studies(
    tasks: Sequence[Task], rows: Sequence[Trajectory], kinds: Collection[NoteKind], most: int
) -> list[Study]:
    """Choose the groups of a step to learn from, at most `most`, the most instructive first.

    Comparisons before successes before failures; among equals, the rarer the success the more it
    teaches. A function of the rows, whatever their order.
    """
    groups: dict[TaskKey, list[Trajectory]] = {task.key: [] for task in tasks}
    for row in rows:
        if row.task in groups:
            groups[row.task].append(row)
    found = [_study(task, groups[task.key]) for task in tasks if groups[task.key]]
    wanted = [study for study in found if study.kind in kinds]
    wanted.sort(key=lambda study: (_ORDER.index(study.kind), study.success, study.task.key))
    return wanted[:most]


def _study(task: Task, rows: Sequence[Trajectory]) -> Study:
    good = [row for row in rows if row.success]
    bad = [row for row in rows if not row.success]
    best = min(good, key=lambda r: (-r.reward.value, r.sampled_count, r.id), default=None)
    worst = min(bad, key=lambda r: (r.reward.value, r.sampled_count, r.id), default=None)
    return Study(task, best, worst, len(good) / len(rows))

"""What a run knows of the host's tasks: last groups, buckets by successes, retirement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recollect.ledger import TaskState
from recollect.replay.book import Result, Retirement, TaskBook
from recollect.types import RunId, TaskKey, TrajectoryId


@dataclass(frozen=True, slots=True)
class Counted:
    """What a count changed: new states, and the tasks among them that retired just now."""

    states: list[TaskState]
    retired: list[TaskKey]


class TaskStates:
    """The task book, with the host's buckets beside it. One update per task and step.

    A task is in exactly one bucket, that of the successes in its last fresh group, or retired.
    Lookups and moves are O(1).
    """

    def __init__(self, run: RunId, retirement: Retirement, states: Iterable[TaskState]) -> None:
        known = list(states)
        self.book = TaskBook(run, retirement, known)
        self.newest = max((state.step for state in known), default=0)
        self._buckets: dict[int, dict[TaskKey, None]] = {}
        self._retired: dict[TaskKey, None] = {}
        self._bucket_of: dict[TaskKey, int] = {}
        for state in known:
            self._place(state)

    @property
    def buckets(self) -> Mapping[int, Iterable[TaskKey]]:
        """Tasks that are not retired, by the successes of their last fresh group."""
        return {count: self._buckets[count] for count in sorted(self._buckets)}

    @property
    def retired(self) -> Iterable[TaskKey]:
        """Tasks whose last fresh group was all successes."""
        return self._retired.keys()

    def bucket(self, count: int) -> Iterable[TaskKey]:
        """Tasks with so many successes in their last fresh group."""
        return self._buckets.get(count, {}).keys()

    def count(self, step: int, groups: Mapping[TaskKey, Mapping[TrajectoryId, bool]]) -> Counted:
        """Take in fresh groups: at once a new bucket, and retirement or return."""
        results = [Result(key, sum(rows.values()), len(rows)) for key, rows in groups.items()]
        before = {result.task for result in results if self.book.is_retired(result.task)}
        states = self.book.update(step, results)
        for state in states:
            self._place(state)
        self.newest = max(self.newest, step)
        return Counted(states, [s.task for s in states if s.retired and s.task not in before])

    def _place(self, state: TaskState) -> None:
        old = self._bucket_of.pop(state.task, None)
        if old is not None:
            del self._buckets[old][state.task]
            if not self._buckets[old]:
                del self._buckets[old]
        self._retired.pop(state.task, None)
        if state.retired:
            self._retired[state.task] = None
        else:
            self._bucket_of[state.task] = state.successes
            self._buckets.setdefault(state.successes, {})[state.task] = None

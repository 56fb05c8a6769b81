"""The task book: what a run knows of each task. One state machine, one update a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recollect.ledger import TaskState
from recollect.replay.buckets import bucket_name
from recollect.types import RunId, TaskKey


@dataclass(frozen=True, slots=True)
class Retirement:
    """When tasks retire: never, or once a fresh group of at least `rows` rows is all successes.

    A retired task is tried again `retest` steps later, and comes back if any row fails.
    """

    on: bool
    rows: int
    retest: int


@dataclass(frozen=True, slots=True)
class Result:
    """The fresh group of a task in a step: how many rows succeeded, of how many."""

    task: TaskKey
    successes: int
    rows: int


class TaskBook:
    """Success rates and retirement of the tasks of one run.

    The rate of a task is that of its last fresh group; replayed rows never count. `update` is
    called once a step and gives the states that changed, for the store; a book made from the
    stored states is equal to the one that made them. All lookups and moves are O(1).
    """

    def __init__(
        self, run: RunId, retirement: Retirement, states: Iterable[TaskState] = ()
    ) -> None:
        self._run = run
        self._retirement = retirement
        self._states: dict[TaskKey, TaskState] = {}
        self._buckets: dict[str, int] = {}
        self._retired: dict[TaskKey, int] = {}  # when each is due
        for state in states:
            self._set(state)

    def __len__(self) -> int:
        return len(self._states)

    def rate(self, task: TaskKey) -> float | None:
        """Success rate of a task's last fresh group; None if it never had one."""
        state = self._states.get(task)
        return None if state is None else state.successes / state.rows

    def state(self, task: TaskKey) -> TaskState | None:
        """Everything known of a task."""
        return self._states.get(task)

    def is_retired(self, task: TaskKey) -> bool:
        """Tell whether a task has left replay and training for now."""
        return task in self._retired

    @property
    def retired(self) -> int:
        """How many tasks are retired."""
        return len(self._retired)

    @property
    def buckets(self) -> Mapping[str, int]:
        """Number of tasks by tenth of their success rate; retired tasks have left theirs."""
        return {name: count for name, count in sorted(self._buckets.items()) if count}

    def due(self, step: int) -> list[TaskKey]:
        """Retired tasks whose re-test has come, longest waiting first."""
        waiting = [(when, task) for task, when in self._retired.items() if when <= step]
        return [task for _, task in sorted(waiting)]

    def update(self, step: int, results: Iterable[Result]) -> list[TaskState]:
        """Take in a step's fresh groups: at once a new rate, and retirement or return."""
        changed = []
        for result in results:
            if not result.rows:
                continue
            solved = result.successes == result.rows
            # A re-test may be smaller than the group that retired the task: it stays retired.
            enough = result.rows >= self._retirement.rows or self.is_retired(result.task)
            retired = self._retirement.on and solved and enough
            state = TaskState(
                run=self._run,
                task=result.task,
                step=step,
                successes=result.successes,
                rows=result.rows,
                retired=retired,
                retest_step=step + self._retirement.retest if retired else None,
            )
            self._set(state)
            changed.append(state)
        return changed

    def _set(self, state: TaskState) -> None:
        before = self._states.get(state.task)
        if before is not None and not before.retired:
            self._buckets[bucket_name(before.successes, before.rows)] -= 1
        self._retired.pop(state.task, None)
        self._states[state.task] = state
        if state.retired:
            self._retired[state.task] = state.retest_step or state.step
        else:
            name = bucket_name(state.successes, state.rows)
            self._buckets[name] = self._buckets.get(name, 0) + 1

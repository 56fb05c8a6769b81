"""What drawing needs to know of tasks, as arrays indexed by the pool's task numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from recollect.ledger import TaskState
from recollect.replay.book import TaskBook
from recollect.types import Task, TaskKey

_FIRST = 64


class TaskColumns:
    """Success rate, retirement, domain and membership of tasks, by the pool's task number.

    Follows the pool (`follow`, for tasks it has not seen) and the task book (`apply`, for states
    that changed), so that a step costs what changed in it and not what is known. Whoever keeps
    figures on tasks takes the numbers out of `moved` (another rate) and `turned` (opened, closed).
    """

    def __init__(self, book: TaskBook, schedule: Collection[TaskKey]) -> None:
        self._book = book
        self._schedule = frozenset(schedule)
        self._numbers: dict[TaskKey, int] = {}
        self._domains: dict[str, int] = {}
        self.rate = np.full(_FIRST, np.nan)  # NaN = not tried in this run
        self.known = np.zeros(_FIRST, np.bool_)  # in the schedule
        self.open = np.zeros(_FIRST, np.bool_)  # in the schedule, and not retired
        self.domain = np.zeros(_FIRST, np.int32)
        self.moved: set[int] = set()
        self.turned: set[int] = set()

    @property
    def domains(self) -> int:
        """How many domains there are; they are numbered from 0."""
        return len(self._domains)

    def number(self, task: TaskKey) -> int | None:
        """The pool's number of a task, None where the pool has no row of it."""
        return self._numbers.get(task)

    def follow(self, tasks: Mapping[int, Task]) -> None:
        """Take in tasks that the pool has and we do not."""
        if len(tasks) == len(self._numbers):
            return
        self._reserve(max(tasks) + 1)
        for number, task in tasks.items():
            if task.key in self._numbers:
                continue
            self._numbers[task.key] = number
            self.domain[number] = self._domains.setdefault(task.domain, len(self._domains))
            self._set(number, task.key)

    def apply(self, states: Iterable[TaskState]) -> None:
        """Take in what a step changed."""
        for state in states:
            number = self._numbers.get(state.task)
            if number is not None:
                self._set(number, state.task)

    def _set(self, number: int, task: TaskKey) -> None:
        rate = self._book.rate(task)
        rate = math.nan if rate is None else rate
        before = float(self.rate[number])
        if rate != before and not (math.isnan(rate) and math.isnan(before)):
            self.moved.add(number)
        self.rate[number] = rate
        self.known[number] = task in self._schedule
        is_open = self.known[number] and not self._book.is_retired(task)
        if self.open[number] != is_open:
            self.turned.add(number)
        self.open[number] = is_open

    def _reserve(self, size: int) -> None:
        while size > self.rate.size:
            self.rate = np.concatenate((self.rate, np.full_like(self.rate, np.nan)))
            self.known = np.concatenate((self.known, np.zeros_like(self.known)))
            self.open = np.concatenate((self.open, np.zeros_like(self.open)))
            self.domain = np.concatenate((self.domain, np.zeros_like(self.domain)))

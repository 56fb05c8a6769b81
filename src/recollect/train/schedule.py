"""Which tasks a step trains on: every task once per pass, in an order of its own each pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from recollect.config.schema.environment import EnvironmentSettings
from recollect.envs.base import Environment
from recollect.envs.selection import select_tasks
from recollect.errors import BadEnvironment
from recollect.randomness import stream
from recollect.types import Task, TaskKey

# Procedural environments may yield very many. Unless somebody asks for more (environment.tasks,
# which names this number), a pass over the first so many is a pass over all.
_MOST_TASKS = 20_000


def training_tasks(environment: Environment, settings: EnvironmentSettings) -> tuple[Task, ...]:
    """List the tasks that the settings ask for, each once, in the environment's order."""
    wanted = select_tasks(environment, settings.split, settings.domains, settings.levels)
    found = itertools.islice(wanted, settings.tasks or _MOST_TASKS)
    tasks = tuple({task.key: task for task in found}.values())
    if not tasks:
        only = "" if settings.domains is None else f" of domains {list(settings.domains)}"
        only += "" if settings.levels is None else f" of levels {list(settings.levels)}"
        raise BadEnvironment(
            environment.name,
            f"split {settings.split} has no tasks{only}",
            "See what there is with: recollect env ls",
        )
    return tasks


class Schedule:
    """An endless line of tasks, pass after pass; a pure function of the place in it.

    `tasks` are all different. Where there are fewer than `per_step`, every step has all of them.
    """

    def __init__(self, tasks: Sequence[Task], seed: int, per_step: int) -> None:
        self._tasks = tuple(tasks)
        self._seed = seed
        self._per_step = min(per_step, len(self._tasks))
        self._lap = 0
        self._order = self._shuffled(0)
        self.by_key = {task.key: task for task in self._tasks}
        self.drawable = self.by_key.keys()

    def take(
        self, position: int, count: int, without: Callable[[TaskKey], bool] = lambda task: False
    ) -> tuple[list[Task], int]:
        """Take the next `count` different tasks from a place on; gives the place after them.

        Tasks that `without` names lose their turn. Where a whole pass has too few others, fewer
        tasks are given.
        """
        found: dict[TaskKey, Task] = {}
        # Two passes: what a step took at the end of one may come first in the next.
        end = position + 2 * len(self._tasks)
        for place in range(position, end):
            if len(found) == min(count, len(self._tasks)):
                return list(found.values()), place
            task = self._at(*divmod(place, len(self._tasks)))
            if not without(task.key):
                found.setdefault(task.key, task)
        return list(found.values()), end

    def _at(self, lap: int, place: int) -> Task:
        if lap < self._lap:
            self._lap, self._order = 0, self._shuffled(0)
        while self._lap < lap:
            self._lap += 1
            self._order = self._after(self._lap, self._order)
        return self._tasks[int(self._order[place])]

    def _after(self, lap: int, before: NDArray[np.int64]) -> NDArray[np.int64]:
        """Order a pass. Where a step ends one pass and begins this one, it shares no task."""
        order = self._shuffled(lap)
        tail = lap * len(self._tasks) % self._per_step
        if not tail:
            return order
        taken = np.isin(order, before[-tail:])
        # The step's first tasks here are the first that it does not have; all others follow.
        head = np.flatnonzero(~taken)[: self._per_step - tail]
        return np.concatenate((order[head], np.delete(order, head)))

    def _shuffled(self, lap: int) -> NDArray[np.int64]:
        return stream(self._seed, "tasks", lap).permutation(len(self._tasks))

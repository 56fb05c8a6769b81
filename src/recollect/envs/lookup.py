"""Finding an environment's task by its id."""

from __future__ import annotations

from recollect.envs.base import Environment, OffersTask
from recollect.errors import UnknownTask
from recollect.types import Task


class TaskLookup:
    """The tasks of one environment by id. All of them are made at the first question, if need be.

    An id may be given without what stands behind an `@`, where no task has it as it is: those of
    single_turn end in a hash that nobody wants to type. Of several such tasks the first is meant.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._known: dict[str, Task] | None = None

    def find(self, id: str) -> Task:
        """Find a task; UnknownTask where the environment has none of this id."""
        if isinstance(self._environment, OffersTask):
            return self._environment.task(id)
        if self._known is None:
            self._known = self._all()
        if id not in self._known:
            raise UnknownTask(self._environment.name, "task", id)
        return self._known[id]

    def _all(self) -> dict[str, Task]:
        whole: dict[str, Task] = {}
        short: dict[str, Task] = {}
        for split in self._environment.splits:
            for task in self._environment.tasks(split):
                whole[task.id] = task
                short.setdefault(task.id.partition("@")[0], task)
        return {**short, **whole}

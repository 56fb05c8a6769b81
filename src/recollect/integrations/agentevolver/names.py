"""Which of our tasks a host's id means, both ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recollect.types import Task, TaskKey


class TaskNames:
    """Uids: the names by which a host's code knows tasks.

    The uid of a task is its `task_id`; a task with a query of its own (a synthetic one, which
    shares its seed's id) has part of its key behind it. Equal uids mean equal tasks.
    """

    def __init__(self, environment: str, version: str) -> None:
        self._environment = environment
        self._version = version
        self._keys: dict[str, TaskKey] = {}
        self._tasks: dict[TaskKey, Task] = {}

    def __contains__(self, key: TaskKey) -> bool:
        return key in self._tasks

    def __iter__(self) -> Iterator[TaskKey]:
        return iter(self._tasks)

    def task(self, task_id: str, query: str | None) -> Task:
        """Make our task for a host's id and query."""
        return Task(self._environment, str(task_id), self._version, query or "")

    def uid(self, key: TaskKey) -> str:
        """Name a task that was learnt."""
        return uid_of(self._tasks[key])

    def known(self, key: TaskKey) -> Task:
        """Return a task that was learnt."""
        return self._tasks[key]

    def key(self, uid: str) -> TaskKey:
        """Find the task of a uid; one never heard of is taken for a `task_id` without a query."""
        return self._keys.get(uid) or self.task(uid, None).key

    def learn(self, tasks: Iterable[Task]) -> None:
        """Take in tasks; those of other environments, or other versions of it, are left out."""
        for task in tasks:
            ours = (task.environment, task.version) == (self._environment, self._version)
            if ours and task.key not in self._tasks:
                self._tasks[task.key] = task
                self._keys[uid_of(task)] = task.key


def uid_of(task: Task) -> str:
    """Name a task for the host."""
    return f"{task.id}#{task.key[:12]}" if task.query else task.id

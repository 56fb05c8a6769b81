"""What may take part in a run beside the loop: a method that protects what was learnt before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from recollect.types import Task, TaskKey

if TYPE_CHECKING:
    from recollect.train.batch import Batch
    from recollect.train.session import Session


class TaskLine(Protocol):
    """An endless line of tasks: a pure function of the place in it.

    `by_key` are all tasks that it may give, `drawable` those whose stored rows may be replayed.
    """

    @property
    def by_key(self) -> Mapping[TaskKey, Task]:
        """All tasks of the line."""

    @property
    def drawable(self) -> Collection[TaskKey]:
        """Tasks whose stored rows may be drawn."""

    def take(
        self, position: int, count: int, without: Callable[[TaskKey], bool] = lambda task: False
    ) -> tuple[list[Task], int]:
        """Take the next `count` different tasks from a place on; gives the place after them."""


class Companion(Protocol):
    """Takes part in one run, from the outside.

    Promises: everything it does is a function of the configuration, of its own files and of what
    it is told here; what it needs to go on is in `save`. A run without a companion is untouched.
    """

    def join(self, session: Session) -> None:
        """Enter a run that is being opened, its weights as they stand.

        It may put another line of tasks into `session.schedule`, another collector into
        `session.collector`, and a term into `session.own.penalty`.
        """

    def trained(self, step: int, batch: Batch) -> None:
        """Hear that a step trained on a batch."""

    def metrics(self) -> Mapping[str, float]:
        """Say what it did in the step that just ended, by documented names."""

    def save(self, folder: Path) -> None:
        """Write its state into a checkpoint that is being made."""

    def restore(self, folder: Path) -> None:
        """Take its state back from a checkpoint."""

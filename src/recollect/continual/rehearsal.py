"""Earlier tasks in the line of tasks: which ones, and how often."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from recollect.randomness import stream
from recollect.replay.quotas import whole_part
from recollect.train.companion import TaskLine
from recollect.types import Task, TaskKey


@dataclass(frozen=True, slots=True)
class Remembered:
    """A task that was trained on: of which stage, last in which step, with what success."""

    task: Task
    stage: int
    step: int
    success: float


def chosen(found: Sequence[Remembered], strategy: str, capacity: int | None) -> list[Task]:
    """Choose the tasks to rehearse, of those remembered.

    Of each stage the latest `capacity` are known. high_reward keeps the half that did best, recent
    the half trained on last (at least one); random and balanced keep all.
    """
    known: list[Remembered] = []
    for stage in sorted({each.stage for each in found}):
        here = sorted((e for e in found if e.stage == stage), key=lambda e: (e.step, e.task.key))
        known += here if capacity is None else here[-capacity:]
    half = max(1, len(known) // 2)
    if strategy == "high_reward":
        known = sorted(known, key=lambda e: (-e.success, e.task.key))[:half]
    elif strategy == "recent":
        known = sorted(known, key=lambda e: (-e.stage, -e.step, e.task.key))[:half]
    return [each.task for each in known]


class Rehearsal:
    """The tasks of a domain's own line with earlier tasks in between: a pure function of the place.

    Of the first n places, exactly floor(n ratio) are rehearsals, so that 0.2 of 4 tasks a step is
    one rehearsal every 1.25 steps. A task is always played in its own domain: it carries it.
    `balanced` takes the domains in turn; otherwise earlier tasks are shuffled together.
    """

    def __init__(
        self,
        own: TaskLine,
        earlier: Sequence[Task],
        ratio: float,
        seed: int,
        *,
        balanced: bool = False,
        draws: bool = False,
    ) -> None:
        self._own = own
        self._earlier = list(earlier)
        self._ratio = ratio if earlier else 0.0
        self._seed = seed
        self._balanced = balanced
        self._laps: dict[int, list[Task]] = {}
        self.by_key: Mapping[TaskKey, Task] = {
            **own.by_key,
            **{task.key: task for task in self._earlier},
        }
        # Stored rows that come back are those of earlier domains only.
        self.drawable: Collection[TaskKey] = (
            frozenset(task.key for task in self._earlier) if draws else own.drawable
        )

    def take(
        self, position: int, count: int, without: Callable[[TaskKey], bool] = lambda task: False
    ) -> tuple[list[Task], int]:
        """Take the next `count` different tasks from a place on; gives the place after them."""
        found: dict[TaskKey, Task] = {}
        most = len(self.by_key)
        for place in range(position, position + 2 * most + 2 * count):
            if len(found) == min(count, most):
                return list(found.values()), place
            task = self._at(place)
            if not without(task.key):
                found.setdefault(task.key, task)
        return list(found.values()), position + 2 * most + 2 * count

    def rehearsed(self, place: int) -> bool:
        """Tell whether a place of the line is a rehearsal."""
        return self._before(place + 1) > self._before(place)

    def _before(self, place: int) -> int:
        return whole_part(place * self._ratio)

    def _at(self, place: int) -> Task:
        before = self._before(place)
        if self.rehearsed(place):
            lap, number = divmod(before, len(self._earlier))
            return self._lap(lap)[number]
        (task,), _ = self._own.take(place - before, 1)
        return task

    def _lap(self, lap: int) -> list[Task]:
        """Order the earlier tasks for one pass over them."""
        if lap not in self._laps:
            rng = stream(self._seed, "rehearsal", lap)
            order = [self._earlier[number] for number in rng.permutation(len(self._earlier))]
            self._laps[lap] = _in_turn(order) if self._balanced else order
        return self._laps[lap]


def _in_turn(tasks: Sequence[Task]) -> list[Task]:
    """Let domains take turns; those with fewer tasks repeat theirs until all have had theirs."""
    domains: dict[str, list[Task]] = {}
    for task in tasks:
        domains.setdefault(task.domain, []).append(task)
    rounds = max(map(len, domains.values()))
    turns = [[here[n % len(here)] for here in domains.values()] for n in range(rounds)]
    # As many as there are tasks, so that a pass has the length that places count on.
    return [task for turn in turns for task in turn][: len(tasks)]

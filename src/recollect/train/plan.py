"""The plan of a step: which tasks, how many fresh rows of each, which stored rows with them."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.replay.pick import Pick
from recollect.replay.replayer import MixedTask, Replayer
from recollect.train.companion import TaskLine
from recollect.types import Task, TaskKey


@dataclass(frozen=True, slots=True)
class Plan:
    """Tasks of a step, all different: from the schedule, and those that stored rows join."""

    scheduled: tuple[Task, ...]
    mixed: tuple[MixedTask, ...] = ()

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks, mixed ones last."""
        return (*self.scheduled, *(each.task for each in self.mixed))

    @property
    def picks(self) -> list[Pick]:
        """All stored rows that were drawn for mixed tasks."""
        return [pick for each in self.mixed for pick in each.picks]

    def fresh_rows(self, group: int) -> list[tuple[Task, int]]:
        """How many rows each task is to be attempted for, in groups of `group`."""
        mixed = [(each.task, group - len(each.picks)) for each in self.mixed]
        return [*((task, group) for task in self.scheduled), *mixed]


def make_plan(
    step: int, tasks: int, schedule: TaskLine, position: int, replayer: Replayer | None
) -> tuple[Plan, int]:
    """Choose a step's `tasks` tasks; gives the place in the schedule after it.

    Mixed tasks first. Of the places that are left, up to half go to retired tasks whose re-test
    is due: however many there are, the others have their turn. The rest goes to the schedule. If
    it has too few tasks that are not retired, retired ones are trained after all, due ones first.
    """
    if replayer is None:
        taken, position = schedule.take(position, tasks)
        return Plan(tuple(taken)), position
    mixed = replayer.mix(tasks)
    known = {each.task.key for each in mixed}
    room = min(tasks, len(schedule.by_key)) - len(mixed)
    keys = (key for key in replayer.book.due(step) if key not in known)
    due = [schedule.by_key[key] for key in keys if key in schedule.by_key]
    half = (room + step % 2) // 2  # of an odd number by turns
    scheduled = due[:half]
    known |= {task.key for task in scheduled}

    def resting(key: TaskKey) -> bool:
        return key in known or replayer.book.is_retired(key)

    taken, position = schedule.take(position, room - len(scheduled), resting)
    scheduled += taken
    scheduled += due[half : half + room - len(scheduled)]
    if len(scheduled) < room:
        known |= {task.key for task in scheduled}
        taken, position = schedule.take(position, room - len(scheduled), known.__contains__)
        scheduled += taken
    return Plan(tuple(scheduled), tuple(mixed)), position

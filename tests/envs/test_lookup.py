"""Finding a task by its id, in environments that make it and in those that list all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from recollect.envs.base import OffersTask
from recollect.envs.desk.environment import Desk
from recollect.envs.lookup import TaskLookup
from recollect.errors import UnknownTask
from recollect.types import Task


class Listed:
    """An environment that only lists its tasks, and counts how often."""

    name, version, splits = "listed", "1", ("train", "test")
    ids = {"train": ("a@1", "b@1", "c"), "test": ("b@2", "b", "c@9")}  # noqa: RUF012

    def __init__(self) -> None:
        self.listed = 0

    def tasks(self, split: str) -> Iterator[Task]:
        self.listed += 1
        return (Task(self.name, id, split=split) for id in self.ids[split])


def test_an_environment_that_makes_tasks_is_asked() -> None:
    desk = Desk()
    assert isinstance(desk, OffersTask)
    assert TaskLookup(desk).find("airline:1:seat:3") == desk.task("airline:1:seat:3")
    with pytest.raises(UnknownTask):
        TaskLookup(desk).find("airline:1:seat:x")


@pytest.mark.parametrize(
    ("asked", "found"),
    [("a@1", "a@1"), ("a", "a@1"), ("b", "b"), ("b@2", "b@2"), ("c", "c")],
)
def test_ids_as_they_are_come_before_shortened_ones(asked: str, found: str) -> None:
    assert TaskLookup(Listed()).find(asked).id == found  # type: ignore[arg-type]


def test_tasks_are_listed_once() -> None:
    environment = Listed()
    known = TaskLookup(environment)  # type: ignore[arg-type]
    for _ in range(3):
        known.find("a")
        with pytest.raises(UnknownTask):
            known.find("z")
    assert environment.listed == 2

"""Choosing tasks by domain and level."""

from __future__ import annotations

import pytest

from recollect.envs.base import OffersSelection
from recollect.envs.desk.environment import Desk
from recollect.envs.selection import select_tasks
from recollect.errors import UnknownTask

CHOICES = [
    (None, None),
    (None, (1,)),
    (("retail",), None),
    (("telecom", "airline"), (3, 1)),
    (("retail",), ()),
]


class Plain:
    """A desk that cannot select."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def tasks(self, split):
        return self._desk.tasks(split)


@pytest.mark.parametrize(("domains", "levels"), CHOICES)
@pytest.mark.parametrize("split", ["train", "test"])
def test_selecting_gives_what_sorting_out_gives_in_the_same_order(split, domains, levels):
    desk = Desk(size=60)
    assert isinstance(desk, OffersSelection)
    assert not isinstance(Plain(desk), OffersSelection)
    chosen = list(select_tasks(Desk(size=60), split, domains, levels))
    assert chosen == list(select_tasks(Plain(desk), split, domains, levels))
    assert bool(chosen) == (levels != ())


def test_a_split_that_is_not_there_is_refused_before_any_task_is_made():
    with pytest.raises(UnknownTask, match="nosplit"):
        select_tasks(Desk(), "nosplit")

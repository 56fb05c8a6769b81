"""Counting what an environment holds."""

from __future__ import annotations

from recollect.envs.desk.environment import Desk
from recollect.envs.survey import sort_tasks, survey

from .guessing import Guessing


def test_counts_add_up_to_the_tasks_there_are():
    desk = Desk(["airline", "retail"], [1, 3], size=40)
    cells = survey(desk)
    assert [(c.domain, c.level) for c in cells] == [
        ("airline", 1),
        ("airline", 3),
        ("retail", 1),
        ("retail", 3),
    ]
    for cell in cells:
        assert cell.kinds == desk.kinds(cell.domain, cell.level)
        for split, number in cell.counts.items():
            places = [(t.domain, t.level) for t in desk.tasks(split)]
            assert number == places.count((cell.domain, cell.level))


def test_gold_lengths_are_means_over_played_gold():
    (cell,) = survey(Desk("airline", 1, kinds=["seat"], size=200))
    assert cell.turns == 2.0
    assert 45 < cell.words < 75


def test_without_kinds_only_counts_remain():
    class Silent(Guessing):
        gold = None

    (cell,) = survey(Silent())
    assert (cell.kinds, cell.words, cell.turns) == ((), None, None)
    assert sum(cell.counts.values()) == 59


def test_sorting_keeps_the_first_of_each_cell():
    desk = Desk(size=10)
    cells = sort_tasks(desk.tasks("train"), most=2)
    assert all(len(tasks) <= 2 for tasks in cells.values())
    assert cells["airline", 1][0] == next(
        t for t in desk.tasks("train") if (t.domain, t.level) == ("airline", 1)
    )

"""The line of tasks with rehearsals in between."""

from __future__ import annotations

import itertools

import pytest

from recollect.continual.rehearsal import Rehearsal, Remembered, chosen
from recollect.train.schedule import Schedule
from recollect.types import Task

OWN = [Task("e", f"own-{n}", domain="own") for n in range(20)]
OLD = [Task("e", f"old-{n}", domain="a" if n < 9 else "b") for n in range(12)]


def line(ratio: float, balanced: bool = False) -> Rehearsal:
    return Rehearsal(Schedule(OWN, 0, 4), OLD, ratio, 0, balanced=balanced)


@pytest.mark.parametrize(("ratio", "per_step"), [(0.2, 4), (0.3, 3), (0.25, 2), (1.0, 4), (0.0, 4)])
def test_fractions_add_up_over_steps(ratio: float, per_step: int) -> None:
    """Seed 001 rounds 0.2 of 4 and 0.3 of 3 down to nothing."""
    made, position, rehearsed = line(ratio), 0, 0
    for step in range(1, 31):
        tasks, position = made.take(position, per_step)
        assert len({task.key for task in tasks}) == per_step
        rehearsed += sum(task.domain != "own" for task in tasks)
        assert abs(rehearsed - ratio * per_step * step) <= 1 + 1e-9
    assert rehearsed == pytest.approx(ratio * per_step * 30, abs=1)


def test_a_pure_function_of_the_place() -> None:
    found, position = [], 0
    made = line(0.4)
    for _ in range(9):
        tasks, position = made.take(position, 4)
        found.append((position, tasks))
    again = line(0.4)
    for (start, _), (end, tasks) in itertools.pairwise(found):
        assert again.take(start, 4) == (tasks, end)
    assert line(0.4).take(found[3][0], 4) == (found[4][1], found[4][0])


def test_tasks_that_rest_lose_their_turn() -> None:
    resting = {task.key for task in OLD[:6]}
    tasks, _ = line(0.5).take(0, 12, resting.__contains__)
    assert not resting & {task.key for task in tasks}


def test_balanced_takes_domains_in_turn() -> None:
    tasks = [line(1.0, balanced=True)._at(place) for place in range(12)]
    domains = [task.domain for task in tasks]
    assert domains.count("a") == domains.count("b") == 6
    plain = [line(1.0)._at(place).domain for place in range(12)]
    assert plain.count("a") == 9


def test_every_earlier_task_has_its_turn() -> None:
    tasks = {line(1.0)._at(place).key for place in range(12)}
    assert tasks == {task.key for task in OLD}


def test_who_is_remembered() -> None:
    found = [Remembered(task, n // 9, n, n / 12) for n, task in enumerate(OLD)]
    assert chosen(found, "random", None) == OLD
    best = chosen(found, "high_reward", None)
    assert {task.key for task in best} == {task.key for task in OLD[6:]}
    recent = chosen(found, "recent", None)
    assert [task.id for task in recent[:4]] == ["old-11", "old-10", "old-9", "old-8"]
    # Of each stage the latest two.
    assert [task.id for task in chosen(found, "random", 2)] == [
        "old-7",
        "old-8",
        "old-10",
        "old-11",
    ]
    assert len(chosen(found[:1], "recent", None)) == 1


def test_only_earlier_rows_are_drawable_where_rows_come_back() -> None:
    draws = Rehearsal(Schedule(OWN, 0, 4), OLD, 0.0, 0, draws=True)
    assert set(draws.drawable) == {task.key for task in OLD}
    assert set(line(0.5).drawable) == {task.key for task in OWN}
    assert len(draws.by_key) == 32
    assert all(task.domain == "own" for task in draws.take(0, 20)[0])

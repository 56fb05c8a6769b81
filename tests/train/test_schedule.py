from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.config.schema.environment import EnvironmentSettings
from recollect.config.settings import all_settings
from recollect.errors import BadEnvironment
from recollect.train.schedule import Schedule, training_tasks
from recollect.types import Task

from .worlds import Letters


def tasks_of(count: int) -> list[Task]:
    return [Task("env", str(number)) for number in range(count)]


def walk(schedule: Schedule, per_step: int, steps: int) -> list[list[str]]:
    found, position = [], 0
    for _ in range(steps):
        tasks, position = schedule.take(position, per_step)
        found.append([task.id for task in tasks])
    return found


@settings(deadline=None)
@given(count=st.integers(1, 12), per_step=st.integers(1, 14), seed=st.integers(0, 5))
def test_every_task_once_per_pass_and_none_twice_in_a_step(
    count: int, per_step: int, seed: int
) -> None:
    steps = walk(Schedule(tasks_of(count), seed, per_step), per_step, 30)
    size = min(count, per_step)
    for ids in steps:
        assert len(ids) == len(set(ids)) == size
    flat = list(itertools.chain(*steps))
    for start in range(0, len(flat) - count + 1, count):
        assert sorted(flat[start : start + count], key=int) == [str(n) for n in range(count)]


@settings(deadline=None, max_examples=30)
@given(count=st.integers(1, 12), per_step=st.integers(1, 9), data=st.data())
def test_tasks_are_a_function_of_the_place(count: int, per_step: int, data: st.DataObject) -> None:
    schedule = Schedule(tasks_of(count), 7, per_step)
    in_order = walk(schedule, per_step, 20)
    for step in data.draw(st.lists(st.integers(0, 19), max_size=6)):
        place = step * min(count, per_step)
        assert [t.id for t in schedule.take(place, per_step)[0]] == in_order[step]
        fresh = Schedule(tasks_of(count), 7, per_step)
        assert [t.id for t in fresh.take(place, per_step)[0]] == in_order[step]


@settings(deadline=None)
@given(data=st.data(), count=st.integers(1, 9), seed=st.integers(0, 3))
def test_steps_of_any_size_with_tasks_left_out(data: st.DataObject, count: int, seed: int) -> None:
    schedule, position = Schedule(tasks_of(count), seed, 4), 0
    for _ in range(12):
        wanted = data.draw(st.integers(0, 11))
        resting = data.draw(st.sets(st.integers(0, count - 1)))
        keys = {Task("env", str(number)).key for number in resting}
        tasks, after = schedule.take(position, wanted, keys.__contains__)
        assert len(tasks) == len({t.key for t in tasks}) == min(wanted, count - len(keys))
        assert not keys & {t.key for t in tasks}
        assert after >= position + len(tasks)
        position = after


def test_a_run_may_be_resumed_after_thousands_of_passes() -> None:
    schedule = Schedule(tasks_of(9), 0, 8)
    assert len(schedule.take(40_000, 8)[0]) == 8


def test_passes_and_seeds_differ() -> None:
    one, two = Schedule(tasks_of(20), 1, 20), Schedule(tasks_of(20), 2, 20)
    first, second = walk(one, 20, 2)
    assert first != second
    assert walk(two, 20, 1)[0] != first


def test_training_tasks_by_level_and_count() -> None:
    env = Letters()
    every = training_tasks(env, EnvironmentSettings())
    assert {task.split for task in every} == {"train"}
    assert {task.level for task in every} == {1, 2}
    of_two = training_tasks(env, EnvironmentSettings(levels=(2,), tasks=3))
    assert [task.level for task in of_two] == [2, 2, 2]
    assert of_two == tuple(task for task in every if task.level == 2)[:3]


def test_no_tasks_say_what_was_looked_for() -> None:
    with pytest.raises(BadEnvironment, match=r"split train has no tasks of levels \[9\]"):
        training_tasks(Letters(), EnvironmentSettings(levels=(9,)))


class Stuttering(Letters):
    """Breaks its promise to yield each task once."""

    def tasks(self, split: str) -> Iterator[Task]:
        for task in super().tasks(split):
            yield task
            yield task


def test_a_task_that_comes_twice_is_one_task() -> None:
    tasks = training_tasks(Stuttering(), EnvironmentSettings(tasks=8))
    assert len(tasks) == len({task.key for task in tasks}) == 4
    assert len(Schedule(tasks, 0, 8).take(8, 8)[0]) == 4


def test_endless_environments_are_cut() -> None:
    class Endless(Letters):
        def tasks(self, split: str) -> Iterator[Task]:
            return (Task("letters", str(number)) for number in itertools.count())

    tasks = training_tasks(Endless(), EnvironmentSettings())
    assert Counter(task.environment for task in tasks) == {"letters": 20_000}
    assert "20,000" in all_settings()["environment.tasks"].description
    assert len(training_tasks(Endless(), EnvironmentSettings(tasks=20_001))) == 20_001

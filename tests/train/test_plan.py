from __future__ import annotations

import random

import pytest

from recollect.replay.book import Result, Retirement, TaskBook
from recollect.replay.policy import Amounts
from recollect.train.plan import make_plan
from recollect.train.schedule import Schedule
from replay.pools import RUN, TASKS, Plant, make_replayer, planted
from replay.pools import task as make_task
from reporting import chosen_seed

SOLVED = Retirement(True, 1, 4)


def retiring(*solved: int) -> TaskBook:
    """A book in which these of TASKS are retired, from step 0 to their re-test in step 4."""
    book = TaskBook(RUN, SOLVED)
    book.update(0, [Result(TASKS[number].key, 4, 4) for number in solved])
    return book


def test_without_replay_the_plan_is_the_schedule() -> None:
    schedule = Schedule(TASKS, 0, 4)
    plan, position = make_plan(1, 4, schedule, 0, None)
    assert list(plan.tasks) == schedule.take(0, 4)[0]
    assert position == 4
    assert plan.picks == []
    assert plan.fresh_rows(8) == [(task, 8) for task in plan.tasks]


def test_mixed_tasks_take_their_part_and_fewer_fresh_rows() -> None:
    with planted(Plant(TASKS[0]), Plant(TASKS[0]), Plant(TASKS[1])) as store:
        replayer = make_replayer(store, Amounts(mix_ratio=0.5, mix_rows=2))
        replayer.begin(1, 10, 0)
        plan, _ = make_plan(1, 4, Schedule(TASKS, 0, 4), 0, replayer)
    assert len(plan.tasks) == len({task.key for task in plan.tasks}) == 4
    assert {each.task for each in plan.mixed} == set(TASKS[:2])
    asked = dict(plan.fresh_rows(8))
    assert asked[TASKS[0]] == 6
    assert asked[TASKS[1]] == 7, "as many fewer as there are stored ones"
    assert all(asked[task] == 8 for task in plan.scheduled)
    assert len(plan.picks) == 3


def test_an_unmet_quota_goes_to_fresh_tasks() -> None:
    with planted(Plant(TASKS[0])) as store:
        replayer = make_replayer(store, Amounts(mix_ratio=1.0))
        replayer.begin(1, 10, 0)
        plan, position = make_plan(1, 4, Schedule(TASKS, 0, 4), 0, replayer)
    assert (len(plan.mixed), len(plan.scheduled)) == (1, 3)
    assert position >= 3


def test_retired_tasks_lose_their_turn_until_they_are_due() -> None:
    with planted() as store:
        replayer = make_replayer(store, Amounts(), book=retiring(0, 1))
        schedule, position = Schedule(TASKS, 0, 2), 0
        for step in (1, 2, 3):
            plan, position = make_plan(step, 2, schedule, position, replayer)
            assert not {TASKS[0], TASKS[1]} & set(plan.tasks)
            assert len(plan.tasks) == 2
        plan, position = make_plan(4, 2, schedule, position, replayer)
        first, other = plan.tasks
        assert first in TASKS[:2], "longest waiting first"
        assert other in TASKS[2:]


def test_re_tests_leave_half_of_a_step_to_the_others() -> None:
    """However many are retired, or nothing but re-tests would be trained."""
    tasks = [make_task(number) for number in range(40)]
    with planted() as store:
        book = TaskBook(RUN, SOLVED)
        book.update(0, [Result(task.key, 4, 4) for task in tasks[:30]])
        replayer = make_replayer(store, Amounts(), book=book, schedule=tasks)
        for per_step, at, expected in ((4, 9, 2), (5, 9, 3), (5, 10, 2), (1, 9, 1), (1, 10, 0)):
            plan, _ = make_plan(at, per_step, Schedule(tasks, 0, per_step), 0, replayer)
            assert sum(book.is_retired(task.key) for task in plan.tasks) == expected
            assert len(set(plan.tasks)) == per_step


def test_due_ones_come_first_where_nobody_else_is_left() -> None:
    with planted() as store:
        book = retiring(0, 1, 2)
        book.update(3, [Result(task.key, 4, 4) for task in TASKS[3:]])
        replayer = make_replayer(store, Amounts(), book=book)
        plan, _ = make_plan(4, 4, Schedule(TASKS, 0, 4), 0, replayer)
        assert set(plan.tasks[:3]) == set(TASKS[:3])
        assert len(set(plan.tasks)) == 4


def test_where_all_are_retired_training_goes_on() -> None:
    with planted() as store:
        replayer = make_replayer(store, Amounts(), book=retiring(0, 1, 2, 3, 4, 5))
        plan, _ = make_plan(1, 4, Schedule(TASKS, 0, 4), 0, replayer)
        assert len(set(plan.tasks)) == 4
        # With too few others, those come first and retired ones fill up.
        replayer = make_replayer(store, Amounts(), book=retiring(0, 1, 2, 3, 4))
        plan, _ = make_plan(1, 4, Schedule(TASKS, 0, 4), 0, replayer)
        assert plan.tasks[0] == TASKS[5]
        assert len(set(plan.tasks)) == 4


def test_a_re_test_does_not_come_twice_in_a_step() -> None:
    with planted(Plant(TASKS[0]), Plant(TASKS[2])) as store:
        replayer = make_replayer(store, Amounts(mix_ratio=0.25), book=retiring(0, 1))
        replayer.begin(9, 10, 0)
        plan, _ = make_plan(9, 4, Schedule(TASKS, 0, 4), 0, replayer)
    assert len(set(plan.tasks)) == 4
    assert [each.task for each in plan.mixed] == [TASKS[2]]
    assert set(plan.scheduled[:2]) == {TASKS[0], TASKS[1]}
    assert TASKS[2] not in plan.scheduled


def test_fewer_tasks_than_a_step_wants() -> None:
    two = TASKS[:2]
    with planted(Plant(two[0])) as store:
        replayer = make_replayer(store, Amounts(mix_ratio=0.5), schedule=two)
        replayer.begin(1, 10, 0)
        plan, _ = make_plan(1, 4, Schedule(two, 0, 4), 0, replayer)
    assert sorted(task.id for task in plan.tasks) == [task.id for task in two]


@pytest.mark.parametrize("per_step", [1, 3, 7])
def test_no_turn_is_lost(per_step: int) -> None:
    """Whatever is mixed, retires and returns: whoever's turn has passed was there, or retired."""
    chance = random.Random(chosen_seed("plan"))
    tasks = [make_task(number) for number in range(11)]
    plants = [Plant(task) for task in tasks for _ in range(2)]
    with planted(*plants) as store:
        book = TaskBook(RUN, SOLVED)
        replayer = make_replayer(store, Amounts(mix_ratio=0.4), book=book, schedule=tasks)
        schedule, other, position = Schedule(tasks, 3, per_step), Schedule(tasks, 3, per_step), 0
        trained: dict[str, int] = dict.fromkeys((task.key for task in tasks), 0)
        for step in range(1, 120):
            replayer.begin(step, 200, 0)
            retired = {task.key for task in tasks if book.is_retired(task.key)}
            plan, after = make_plan(step, per_step, schedule, position, replayer)
            there = {task.key for task in plan.tasks}
            assert len(there) == len(plan.tasks) == per_step
            for place in range(position, after):
                (task,), _ = other.take(place, 1)
                assert task.key in there | retired
            position = after
            for key in there:
                trained[key] = step
            # Nobody waits for ever: neither the retired nor the others.
            assert min(trained.values()) >= step - 60
            results = [Result(key, chance.choice((2, 4, 4)), 4) for key in there]
            replayer.finish(results, [])

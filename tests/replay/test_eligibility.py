from __future__ import annotations

from dataclasses import replace

import pytest

from recollect.ledger import TaskState
from recollect.replay.book import Result, Retirement
from recollect.replay.eligibility import Now, Rules, eligible
from recollect.replay.pool import Pool
from recollect.store.records import Provenance
from recollect.types import RunId

from .pools import PRINTS, RUN, TASKS, Plant, book_of, columns, plant_rows, planted, task

NOW = Now(RUN, step=10, version=10)


def who(plants: list[Plant], rules: Rules, now: Now = NOW) -> list[int]:
    """Which of the rows may be drawn."""
    with planted(*plants) as store:
        pool = Pool(store)
        found = eligible(pool, columns(pool, book_of()), rules, now)
        return [n for n, yes in enumerate(found) if yes]


def test_without_limits_everything_may_be_drawn() -> None:
    assert who([Plant(), Plant(success=False, entropy=None)], Rules(PRINTS)) == [0, 1]


def test_age_is_inclusive() -> None:
    plants = [Plant(version=v) for v in (4, 5, 6, 10)]
    assert who(plants, Rules(PRINTS, max_age=5)) == [1, 2, 3]


def test_another_runs_rows_are_as_old_as_if_it_had_just_ended() -> None:
    other = RunId("run-b")
    plants = [Plant(run=other, version=v) for v in (96, 100)] + [Plant(version=0)]
    # At version 10 of ours: theirs are 15 and 11 old, ours is 10.
    assert who(plants, Rules(PRINTS, max_age=11)) == [1, 2]


def test_uses_are_exclusive() -> None:
    plants = [Plant(), Plant(used=[1]), Plant(used=[1, 2]), Plant(used=[1, 2, 3])]
    assert who(plants, Rules(PRINTS, max_uses=2)) == [0, 1]


def test_cooldown_counts_whole_steps_of_rest() -> None:
    plants = [Plant(used=[step]) for step in (7, 8, 9)] + [Plant()]
    # Step 10 with two steps of rest: a row of step 7 rested in 8 and 9.
    assert who(plants, Rules(PRINTS, cooldown=2)) == [0, 3]
    assert who(plants, Rules(PRINTS, cooldown=0)) == [0, 1, 2, 3]


def test_measured_drift() -> None:
    plants = [Plant(ess=0.3), Plant(ess=0.5), Plant(ess=0.9), Plant(), Plant(advantage=1.0)]
    assert who(plants, Rules(PRINTS, min_ess=0.5)) == [1, 2, 3, 4], "unmeasured ones pass"
    plants = [Plant(ratio=3.0), Plant(ratio=2.0), Plant(ratio=0.5), Plant()]
    assert who(plants, Rules(PRINTS, max_ratio=2.0)) == [1, 2, 3]


@pytest.mark.parametrize("field", ["tokenizer", "environment_version", "reward_version"])
def test_every_fingerprint_must_match(field: str) -> None:
    other = Plant(prints=replace(PRINTS, **{field: "another"}))
    assert who([other, Plant()], Rules(PRINTS)) == [1]
    assert who([Plant()], Rules(Provenance("x", "y", "z"))) == []


def test_demos_need_recomputed_log_probs() -> None:
    plants = [Plant(version=None), Plant()]
    assert who(plants, Rules(PRINTS)) == [1]
    assert who(plants, Rules(PRINTS, max_age=1, needs_logprobs=False), Now(RUN, 1, 0)) == [0, 1]


def test_an_empty_pool() -> None:
    assert who([], Rules(PRINTS)) == []


def test_retired_tasks_and_tasks_outside_the_schedule_stay_out() -> None:
    outside = task(99)
    plants = [Plant(TASKS[0]), Plant(TASKS[1]), Plant(outside)]
    book = book_of((TASKS[0], 8, 8), (TASKS[1], 3, 8), retired=[TASKS[0]])
    with planted(*plants) as store:
        pool = Pool(store)
        tasks = columns(pool, book)
        assert eligible(pool, tasks, Rules(PRINTS), NOW).tolist() == [False, True, False]
        # One task comes back, the other retires: the columns follow what changed.
        book = book_of((TASKS[0], 8, 8), retired=[TASKS[0]], retirement=Retirement(True, 1, 5))
        tasks = columns(pool, book)
        changed = book.update(10, [Result(TASKS[0].key, 1, 8), Result(TASKS[1].key, 8, 8)])
        tasks.apply([*changed, TaskState(RUN, task(77).key, 10, 1, 8)])
        assert eligible(pool, tasks, Rules(PRINTS), NOW).tolist() == [True, False, False]


def test_columns_follow_a_growing_pool() -> None:
    with planted(Plant()) as store:
        pool = Pool(store)
        many = [task(number, f"domain-{number % 3}") for number in range(100, 300)]
        tasks = columns(pool, book_of((many[150], 1, 4)), [*many, TASKS[0]])
        plant_rows(store, [Plant(each) for each in many], first=1)
        pool.refresh()
        tasks.follow(pool.tasks)
        number = tasks.number(many[150].key)
        assert number is not None
        assert pool.tasks[number] == many[150]
        assert tasks.rate[number] == 0.25
        assert eligible(pool, tasks, Rules(PRINTS), NOW).all()
        found = [tasks.domain[tasks.number(each.key) or 0] for each in many]
        assert len(set(found)) == 3
        assert found[:3] == found[3:6]

from __future__ import annotations

import numpy as np
import pytest

from recollect.replay.book import Result
from recollect.replay.eviction import Keeping, beyond_budget, beyond_task, counted_bytes
from recollect.replay.policy import Amounts, Budget
from recollect.replay.pool import Pool
from recollect.replay.weights import Weighing
from recollect.store.records import Provenance
from recollect.types import RunId

from .pools import TASKS, Plant, fresh, make_replayer, planted, task

OTHER = RunId("run-b")


def kept(keeping: Keeping, rows: int = 8) -> list[int]:
    """Which numbers of successes, of so many rows, keep their group."""
    key = TASKS[0].key
    return [wins for wins in range(rows + 1) if keeping.keeps(Result(key, wins, rows))]


@pytest.mark.parametrize(
    ("keeping", "expected"),
    [
        (Keeping(), list(range(9))),
        # ExGRPO: 0 < k < 8, or with its released bounds 0 < k <= 7.
        (Keeping(0, 8, as_rate=False), list(range(1, 8))),
        (Keeping(2, 8, as_rate=False), list(range(3, 8))),
        (Keeping(2, 6, as_rate=False, inclusive=True), [2, 3, 4, 5, 6]),
        (Keeping(0, 1), list(range(1, 8))),
        (Keeping(0.25, 0.75), [3, 4, 5]),
        (Keeping(0.25, 0.75, inclusive=True), [2, 3, 4, 5, 6]),
        (Keeping(0.25, None), list(range(3, 9))),
        (Keeping(None, 0.25), [0, 1]),
        (Keeping(0.5, 0.5, inclusive=True), [4]),
    ],
)
def test_bounds(keeping: Keeping, expected: list[int]) -> None:
    assert kept(keeping) == expected


def test_rates_do_not_depend_on_the_size_of_the_group() -> None:
    assert kept(Keeping(0.25, 0.75, inclusive=True), rows=4) == [1, 2, 3]
    assert kept(Keeping(2, 6, as_rate=False, inclusive=True), rows=4) == [2, 3, 4]


def test_what_is_not_kept_and_why() -> None:
    solved = fresh(TASKS[0], 1, True, True)
    half = fresh(TASKS[1], 1, True, False)
    results = [Result(TASKS[0].key, 2, 2), Result(TASKS[1].key, 1, 2)]
    found = Keeping(0, 1).unkept([*solved, *half], results)
    assert list(found) == [row.id for row in solved]
    assert "pool.upper" in found[solved[0].id]
    found = Keeping(successes_only=True).unkept([*solved, *half], results)
    assert list(found) == [half[1].id]
    assert "pool.keep" in found[half[1].id]
    assert list(Keeping(0, 1, successes_only=True).unkept([*solved, *half], results)) == [
        solved[0].id,
        solved[1].id,
        half[1].id,
    ]


def test_rows_per_task() -> None:
    a, b = TASKS[:2]
    plants = [Plant(a), Plant(b), Plant(a, pinned=True), Plant(a), Plant(a), Plant(b)]
    with planted(*plants) as store:
        pool = Pool(store)
        rows = np.arange(6)
        newest = -rows.astype(float)
        # The pinned row stays and takes one of the places.
        assert beyond_task(pool, rows, newest, 2).tolist() == [0, 3]
        assert beyond_task(pool, rows, newest, 1).tolist() == [0, 1, 3, 4]
        assert beyond_task(pool, rows, newest, 9).tolist() == []
        # Equal ones: the newer stays. Some of the rows only.
        assert beyond_task(pool, rows, np.zeros(6), 2).tolist() == [0, 3]
        some = np.array([0, 3, 5])
        assert beyond_task(pool, some, np.array([0.0, 1.0, 0.0]), 1).tolist() == [3]


def test_row_budget_lets_the_useless_go_first() -> None:
    plants = [Plant(pinned=n == 1) for n in range(5)]
    with planted(*plants) as store:
        pool = Pool(store)
        every, useful = np.arange(5), np.array([3.0, -1.0, 0.0, -1.0, 0.0])
        assert beyond_budget(pool, every, useful, 5, None).tolist() == []
        assert beyond_budget(pool, every, useful, 4, None).tolist() == [3], "1 is pinned"
        assert beyond_budget(pool, every, useful, 3, None).tolist() == [2, 3], "the older of two"
        assert beyond_budget(pool, every, useful, 5, None, arriving=2).tolist() == [2, 3]
        assert beyond_budget(pool, every, useful, 1, None, arriving=9).tolist() == [0, 2, 3, 4]
        assert beyond_budget(pool, every, useful, 100, None, arriving=3).tolist() == []


def test_byte_budget() -> None:
    plants = [Plant(tokens=8), Plant(tokens=400), Plant(tokens=8), Plant(tokens=8)]
    with planted(*plants) as store:
        pool = Pool(store)
        sizes = counted_bytes(pool)
        held = int(sizes.sum())
        every, useful = np.arange(4), np.array([0.0, 1.0, 2.0, 3.0])
        assert beyond_budget(pool, every, useful, None, held).tolist() == []
        assert beyond_budget(pool, every, useful, None, held - 1).tolist() == [0]
        assert beyond_budget(pool, every, useful, None, held - int(sizes[0])).tolist() == [0]
        assert beyond_budget(pool, every, useful, None, held - int(sizes[0]) - 1).tolist() == [0, 1]
        assert beyond_budget(pool, every, useful, None, 1).tolist() == [0, 1, 2, 3]
        # Those arriving are taken to be of mean size; both budgets at once: the stricter one.
        assert beyond_budget(pool, every, useful, None, held, arriving=1).tolist() == [0, 1]
        assert beyond_budget(pool, every, useful, 1, held - 1).tolist() == [0, 1, 2]


def test_rows_of_others_are_neither_counted_nor_let_go() -> None:
    """Four of another model's, two of tasks that this run does not train on, four that it draws."""
    other, world = Provenance("other", "1", "r1"), task(99)
    plants = [
        *(Plant(TASKS[0], run=OTHER, advantage=9.0, prints=other) for _ in range(4)),
        *(Plant(world, run=OTHER) for _ in range(2)),
        *(Plant(TASKS[0], run=OTHER, advantage=float(n)) for n in range(2)),
        Plant(TASKS[0], advantage=3.0),
        Plant(TASKS[0], advantage=4.0, prints=other),  # its own, before it changed its template
    ]
    size = 512 + 8 * 8 + 6 * 9
    for budget, expected in (
        (Budget(max_rows=6), []),
        (Budget(max_rows=4), [6, 9]),
        (Budget(max_bytes=6 * size), []),
        (Budget(max_bytes=5 * size), [9]),
        (Budget(rows_per_task=2), [6, 9]),
    ):
        with planted(*plants) as store:
            replayer = make_replayer(
                store,
                Amounts(buffer_updates=1, buffer_rows=1),
                weighing=Weighing("advantage"),
                budget=budget,
            )
            replayer.begin(2, 10, 1)
            rows = fresh(TASKS[1], 2, True, False)
            _, marks = replayer.finish([Result(TASKS[1].key, 1, 2)], rows)
            assert [mark.trajectory for mark in marks] == [f"row-{n}" for n in expected], budget


def test_an_empty_pool_has_nothing_to_lose() -> None:
    with planted() as store:
        none = np.arange(0)
        assert beyond_budget(Pool(store), none, np.empty(0), 1, 1, arriving=5).tolist() == []

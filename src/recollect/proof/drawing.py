"""Draws of stored rows without replacement: included exactly as often as the ledger says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.errors import PromiseBroken
from recollect.ledger import Run, Score
from recollect.proof.fake_run import RUN, TASKS, make_trajectory
from recollect.replay.blocks import BLOCK
from recollect.replay.book import Retirement, TaskBook
from recollect.replay.eligibility import Now, Rules
from recollect.replay.index import DrawIndex, Scheme
from recollect.replay.pool import Pool
from recollect.replay.task_columns import TaskColumns
from recollect.replay.weights import Weighing
from recollect.store import open_store
from recollect.store.base import Store, StoreReader
from recollect.store.records import Batch, Provenance

COUNT = 3
# Of three blocks of rows these have a priority. The last one is certain. Of the others those of the
# first block are drawn by way of their block, those of the second as rows: three items in a line.
PRIORITIES = {5: 0.1, 9: 0.2, BLOCK + 2: 0.3, BLOCK + 100: 0.4, 2 * BLOCK + 1: 5.0}
ORDERS = tuple(itertools.permutations(range(3)))


@dataclass(frozen=True, slots=True)
class Scripted:
    """A generator that says what it is told to: the order of items, the first mark, all picks."""

    order: tuple[int, ...]
    start: float
    pick: float = 0.5

    def permutation(self, what: Any) -> Any:
        """Give the order."""
        return what[list(self.order)]

    def random(self, size: int | None = None) -> Any:
        """Give the first mark, or the picks inside that many blocks."""
        return self.start if size is None else np.full(size, self.pick)


def enumerate_draws(path: Path, starts: int, picks: int) -> float:
    """Draw from a store at `path` in every order, from every start; the largest deviation found.

    Through everything that a buffer's draw goes through: store, pool, rules, weights, blocks.
    PromiseBroken where a row is drawn more or less often than the draw tells. With so many starts
    and picks inside a block, each frequency is exact to one of them.
    """
    with open_store(path) as store:
        _plant(store)
        index = _index(store)
        allowed = 1.01 / starts + 1.01 / picks
        deviations = [_in_order(index, order, starts, picks) for order in ORDERS]
    largest = max(deviations)
    if largest > allowed:
        raise PromiseBroken(f"rows were drawn {largest:.3f} more or less often than told")
    return largest


def _in_order(index: DrawIndex, order: tuple[int, ...], starts: int, picks: int) -> float:
    """The largest deviation, over all starts and picks, with the items in one order."""
    drawn_times, told = np.zeros(2 * BLOCK + 2), np.zeros(2 * BLOCK + 2)
    for start, pick in itertools.product(_middles(starts), _middles(picks)):
        rng: Any = Scripted(order, start, pick)
        drawn = index.draw(COUNT, rng)
        if drawn.positions.size != COUNT or np.unique(drawn.positions).size != COUNT:
            raise PromiseBroken(f"order {order}: drew {drawn.positions}, not {COUNT} rows")
        before = told[drawn.positions]
        if np.any((before != drawn.probabilities) & (before > 0)):
            raise PromiseBroken(f"order {order}: told {before}, then {drawn.probabilities}")
        drawn_times[drawn.positions] += 1
        told[drawn.positions] = drawn.probabilities
    if sorted(np.flatnonzero(told)) != sorted(PRIORITIES):
        raise PromiseBroken(f"order {order}: drew {np.flatnonzero(told)}, not the rows with weight")
    deviation: NDArray[np.float64] = np.abs(drawn_times / (starts * picks) - told)
    return float(deviation.max())


def _middles(count: int) -> Iterator[float]:
    return ((number + 0.5) / count for number in range(count))


def _plant(store: Store) -> None:
    """Write rows enough for three blocks, and score those that are to be drawn."""
    rows = [make_trajectory(n, step=n) for n in range(2 * BLOCK + 2)]
    store.commit(Batch(runs=[Run(RUN)], tasks=TASKS, trajectories=rows))
    scores = [Score(RUN, 1, rows[n].id, 1.0, value) for n, value in PRIORITIES.items()]
    store.commit(Batch(scores=scores))


def _index(store: StoreReader) -> DrawIndex:
    pool = Pool(store)
    tasks = TaskColumns(TaskBook(RUN, Retirement(False, 1, 1)), {task.key for task in TASKS})
    tasks.follow(pool.tasks)
    index = DrawIndex(pool, tasks, Scheme(Weighing("stored"), needs_advantage=True))
    row = make_trajectory(0)
    prints = Provenance(row.tokenizer, row.environment_version, row.reward_version)
    index.update(Rules(prints), Now(RUN, len(pool), len(pool)))
    return index

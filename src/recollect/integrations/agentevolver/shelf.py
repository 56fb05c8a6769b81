"""The shelf: the pool's stored successes, task by task."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from recollect.integrations.agentevolver.settings import SelectMode
from recollect.replay.book import TaskBook
from recollect.replay.eligibility import Now, Rules, eligible, matching
from recollect.replay.pool import Pool
from recollect.replay.sampling import Drawn, draw
from recollect.replay.task_columns import TaskColumns
from recollect.trajectory import Trajectory
from recollect.types import TaskKey

_NONE = np.empty(0, np.int64)


class Shelf:
    """Finds the rows of a task. Positions are those of the pool, valid until the next refresh.

    A row is on the shelf if it is live, a success, and has our fingerprints. It is usable if
    the rules (age, uses, log-probs) let it be replayed now and its task is not retired.
    """

    def __init__(self, pool: Pool, rules: Rules) -> None:
        self.pool = pool
        self._rules = rules
        self._numbers: dict[TaskKey, int] = {}
        self._rows: dict[int, NDArray[np.int64]] = {}
        self._usable = np.zeros(0, np.bool_)
        self._told = set[str]()

    def refresh(self, book: TaskBook, now: Now) -> None:
        """Follow the store; costs one pass over the pool."""
        pool = self.pool
        pool.refresh()
        self._numbers = {task.key: number for number, task in pool.tasks.items()}
        columns = TaskColumns(book, self._numbers)
        if pool.tasks:
            columns.follow(pool.tasks)
        self._usable = eligible(pool, columns, self._rules, now)
        facts = pool.facts
        here = matching(pool, self._rules.fingerprints) & facts["success"] & (facts["sampled"] > 0)
        rows = np.flatnonzero(here)
        rows = rows[np.argsort(facts["task"][rows], kind="stable")]
        numbers, starts = np.unique(facts["task"][rows], return_index=True)
        parts = np.split(rows, starts[1:])
        self._rows = dict(zip(numbers.tolist(), parts, strict=True)) if rows.size else {}

    def knows(self, task: TaskKey) -> bool:
        """Tell whether the store has the task, with or without rows."""
        return task in self._numbers

    def rows(self, task: TaskKey) -> NDArray[np.int64]:
        """All rows of a task on the shelf, oldest first."""
        return self._rows.get(self._numbers.get(task, -1), _NONE)

    def usable(self, task: TaskKey) -> NDArray[np.int64]:
        """Those that may be replayed now, oldest first."""
        rows = self.rows(task)
        return rows[self._usable[rows]]

    def is_usable(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which rows may be replayed now."""
        return self._usable[rows]

    def tasks(self) -> Iterator[TaskKey]:
        """Tasks with at least one row that may be replayed now."""
        for number, rows in self._rows.items():
            if self._usable[rows].any():
                yield self.pool.tasks[number].key

    def read(self, rows: NDArray[np.int64]) -> dict[int, Trajectory]:
        """Read rows, by position; a RuntimeWarning names those that are damaged or gone, once."""
        found = self.pool.read(rows)
        for name in sorted(self.pool.lost.keys() - self._told):
            self._told.add(name)
            text = f"stored row {name} is left out: {self.pool.lost[name]}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return found

    def choose(
        self,
        rows: NDArray[np.int64],
        count: int,
        mode: SelectMode,
        rng: np.random.Generator,
        entropies: NDArray[np.float64] | None = None,
    ) -> Drawn:
        """Take up to `count` different rows, the best first, with their exact probabilities.

        `entropies` [len(rows)] stand in for those recorded when the rows were sampled.
        """
        if mode == "random":
            drawn = draw(np.ones(rows.size), count, rng)
            return Drawn(rows[drawn.positions], drawn.probabilities)
        if entropies is None:
            entropies = self.pool.facts["entropy"][rows].astype(np.float64)
        worse = badness(mode, entropies)
        best = rows[np.lexsort((-rows, worse))[: max(count, 0)]]
        return Drawn(best, np.ones(best.size))


def badness(mode: SelectMode, entropies: NDArray[np.float64]) -> NDArray[np.float64]:
    """What rows [n] are sorted by, the best first; ties go to the newer row.

    Unknown entropy (NaN) comes last under argmin and argmax alike; random and newest go by age.
    """
    if mode not in ("argmin", "argmax"):
        return np.zeros(entropies.size)
    signed = entropies if mode == "argmin" else -entropies
    return np.where(np.isnan(entropies), np.inf, signed)


class StoredTrajectories(Mapping[str, tuple[Trajectory, ...]]):
    """Uid -> stored rows, oldest first. A view: rows are read from the store when asked for."""

    def __init__(self, shelf: Shelf, keys: Mapping[str, TaskKey]) -> None:
        self._shelf = shelf
        self._keys = keys

    def __getitem__(self, uid: str) -> tuple[Trajectory, ...]:
        return tuple(self._shelf.read(self._shelf.rows(self._keys[uid])).values())

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

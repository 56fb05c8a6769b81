"""A store that only feeds a pool, with rows that a test changes; and a plain reading of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.ledger import Event, Run
from recollect.replay.eligibility import Now, Rules
from recollect.replay.pool import Pool
from recollect.replay.task_columns import TaskColumns
from recollect.replay.weights import Weighing
from recollect.store.records import PACK, Changes, Columns, Provenance
from recollect.types import RunId, Task

from .pools import PRINTS, RUN

OTHER = RunId("run-b")
PROVENANCES = {1: PRINTS, 2: Provenance("tok", "2", "r1")}
STATE = ("uses", "last_use", "pinned", "advantage", "priority", "ess", "ratio")

Rows = NDArray[np.int64]


class Feed:
    """Rows by number; live ones are what a pool sees. Every change has a number as in a store."""

    def __init__(self, tasks: int, domains: int = 3, first: int = 0, gap: int = 1) -> None:
        self._tasks = {
            n: Task("world", f"task-{n:04}", domain=f"domain-{n % domains}")
            for n in range(1, tasks + 1)
        }
        self._first, self._gap = first, gap
        self._change = 1
        self.pack = np.zeros(0, PACK)
        self.state: dict[str, NDArray[Any]] = {
            "uses": np.zeros(0, np.int32),
            "last_use": np.zeros(0, np.int32),
            "pinned": np.zeros(0, np.bool_),
            **{name: np.zeros(0, np.float32) for name in STATE[3:]},
        }
        self.live = np.zeros(0, np.bool_)
        self._changed = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return self.live.size

    def copy(self, first: int = 0, gap: int = 1) -> Feed:
        """The same rows in the same order under other numbers, as a resumed run leaves them."""
        twin = Feed(1, first=first, gap=gap)
        twin._tasks = self._tasks
        twin.pack, twin.live, twin._changed = self.pack, self.live, self._changed
        twin.state, twin._change = self.state, self._change
        return twin

    def add(self, rng: np.random.Generator, count: int, version: int, step: int) -> None:
        """Write rows of random tasks, most of them by this run, now."""
        pack = np.zeros(count, PACK)
        pack["task"] = rng.integers(1, len(self._tasks) + 1, count)
        pack["run"] = np.where(rng.random(count) < 0.8, 1, 2)
        pack["provenance"] = np.where(rng.random(count) < 0.9, 1, 2)
        pack["step"] = step
        pack["version"] = np.maximum(version - rng.integers(0, 3, count), 0)
        pack["version"][rng.random(count) < 0.1] = -1
        pack["tokens"], pack["sampled"] = 9, np.where(rng.random(count) < 0.97, 5, 0)
        pack["reward"], pack["logprob"] = rng.normal(size=count), -rng.random(count)
        pack["success"] = rng.random(count) < 0.5
        self.pack = np.concatenate((self.pack, pack))
        for name, values in self.state.items():
            new = np.full(count, -1 if name == "last_use" else 0).astype(values.dtype)
            if values.dtype == np.float32:
                new[:] = np.nan
            self.state[name] = np.concatenate((values, new))
        self.live = np.concatenate((self.live, np.ones(count, np.bool_)))
        self._changed = np.concatenate((self._changed, np.zeros(count, np.int64)))
        rows = np.arange(len(self) - count, len(self))
        self._touch(rows)
        self.score(rng, rows[rng.random(count) < 0.8])

    def score(self, rng: np.random.Generator, rows: Rows) -> None:
        """Give rows new figures; a few are heavy beyond comparison, a few have none."""
        size = np.exp(rng.normal(size=rows.size) * 2) * (rng.random(rows.size) < 0.9)
        self.state["advantage"][rows] = size * rng.choice([-1, 1], rows.size)
        self.state["priority"][rows] = size
        self.state["ess"][rows] = rng.random(rows.size)
        self.state["ratio"][rows] = 1 + rng.random(rows.size)
        self._touch(rows)

    def use(self, rows: Rows, step: int) -> None:
        """Count a use."""
        self.state["uses"][rows] += 1
        self.state["last_use"][rows] = step
        self._touch(rows)

    def set_live(self, rows: Rows, live: bool) -> None:
        """Evict or ban rows, or bring them back."""
        self.live[rows] = live
        self._touch(rows)

    def _touch(self, rows: Rows) -> None:
        self._change += 1
        self._changed[rows] = self._change

    def changes(self, since: int | None, run: RunId | None = None) -> Changes:
        """What happened since a change."""
        new = self._changed > (-1 if since is None else since)
        rows = np.flatnonzero(new & self.live)
        gone = self._name(np.flatnonzero(new & ~self.live))
        state = {name: values[rows] for name, values in self.state.items()}
        block = Columns(seq=self._name(rows), pack=self.pack[rows], **state)
        return Changes(self._change, False, iter([block]), gone)

    def _name(self, rows: Rows) -> Rows:
        return self._first + rows * self._gap

    def tasks(self, after: int = 0) -> dict[int, Task]:
        """All tasks by number."""
        return {number: task for number, task in self._tasks.items() if number > after}

    def runs(self) -> dict[int, Run]:
        """Two runs."""
        return {1: Run(RUN), 2: Run(OTHER)}

    def newest_version(self, run: RunId) -> int | None:
        """The newest version of a run's rows, those that are gone too."""
        mine = self.pack["version"][self.pack["run"] == (1 if run == RUN else 2)]
        return int(mine.max()) if mine.size and mine.max() >= 0 else None

    def events(self, run: RunId, step: int | None = None) -> list[Event]:
        """Nothing was inherited."""
        return []

    def provenances(self) -> dict[int, Provenance]:
        """Rows of two kinds."""
        return PROVENANCES


# -- the plain reading: every rule and every factor, row by row ----------------------------------


def plain_ages(pool: Pool, now: Now) -> NDArray[np.float64]:
    """Ages; rows of another run count as if it had ended just before this one began.

    Its newest row decides, also one that has left the pool.
    """
    versions, runs = pool.facts["version"].astype(np.float64), pool.facts["run"]
    ages = now.version - versions
    for number, run in pool.runs.items():
        newest = pool._store.newest_version(run)
        if run != now.run and newest is not None:
            ages[runs == number] += 1 + newest
    ages[versions < 0] = -1
    return ages


def plain_allowed(pool: Pool, tasks: TaskColumns, rules: Rules, now: Now) -> NDArray[np.bool_]:
    """Who may be drawn."""
    facts, last = pool.facts, pool.last_use
    found = (facts["sampled"] > 0) & tasks.open[facts["task"]]
    if rules.needs_logprobs:
        found &= facts["version"] >= 0
    if rules.max_age is not None:
        found &= plain_ages(pool, now) <= rules.max_age
    if rules.max_uses is not None:
        found &= pool.uses < rules.max_uses
    found &= (last < 0) | (last < now.step - rules.cooldown) | (rules.cooldown == 0)
    if rules.min_ess is not None:
        found &= ~(pool.ess < rules.min_ess)
    if rules.max_ratio is not None:
        found &= ~(pool.ratio > rules.max_ratio)
    right = [number for number, kind in pool.provenances.items() if kind == rules.fingerprints]
    found &= np.isin(facts["provenance"], right)
    return np.asarray(found)


def plain_weights(
    pool: Pool, tasks: TaskColumns, weighing: Weighing, now: Now, allowed: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """How much rows weigh."""
    sizes = {
        "equal": np.ones(len(pool)),
        "advantage": np.abs(pool.advantage),
        "stored": pool.priority,
        "reward": np.maximum(pool.facts["reward"], 0.0),
        "likelihood": np.exp(pool.facts["logprob"]),
    }
    size = sizes[weighing.priority].astype(np.float64) + weighing.floor
    weights = np.where(size > 0, np.abs(size) ** weighing.alpha, 0.0)
    if weighing.half_life is not None:
        weights *= 2.0 ** (-np.maximum(plain_ages(pool, now), 0) / weighing.half_life)
    rates = tasks.rate[pool.facts["task"]]
    rates = np.where(np.isnan(rates), weighing.center, rates)
    if weighing.buckets == "gaussian":
        weights *= np.exp(-0.5 * ((rates - weighing.center) / weighing.sigma) ** 2)
    elif weighing.buckets != "uniform":
        weights *= rates if weighing.buckets == "linear" else np.sqrt(rates)
    return np.where(allowed, np.nan_to_num(weights), 0.0)

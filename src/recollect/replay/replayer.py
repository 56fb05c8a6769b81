"""The replayer: decides, step by step, which stored rows train. It stores nothing itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.ledger import Mark, TaskState
from recollect.randomness import stream
from recollect.replay.book import Result, TaskBook
from recollect.replay.buckets import task_weights
from recollect.replay.choice import Chooser
from recollect.replay.eligibility import Now, Rules, eligible
from recollect.replay.eviction import Keeping, beyond_budget, beyond_task
from recollect.replay.pick import Pick
from recollect.replay.pool import Pool
from recollect.replay.quotas import Quota, draw_with_quotas
from recollect.replay.sampling import NOTHING, Drawn, draw
from recollect.replay.starting import Start, quota
from recollect.replay.task_columns import TaskColumns
from recollect.replay.weights import Weighing, priority_weights, row_weights
from recollect.trajectory import Trajectory
from recollect.types import Action, GroupId, RunId, Task, TaskKey, TrajectoryId, group_id

Floats: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much is replayed; see the settings of the same names."""

    mix_ratio: float = 0.0
    mix_rows: int = 1
    trains: bool = True  # False: mixed tasks are visited again, their rows stay out
    repair_rows: int = 0
    buffer_updates: int = 0
    buffer_rows: int = 0
    buffer_share: float | None = None  # of `step_rows`; then it decides, not `buffer_rows`
    step_rows: int = 0
    max_per_task: int | None = None
    max_domain_share: float | None = None
    beta: float = 0.0


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is kept; None = everything."""

    rows_per_task: int | None = None
    max_rows: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MixedTask:
    """A task of the plan that stored rows were drawn for."""

    task: Task
    picks: tuple[Pick, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """All the rules of a replayer, fixed for its run."""

    rules: Rules
    weighing: Weighing
    amounts: Amounts
    keeping: Keeping
    budget: Budget


class Replayer:
    """Draws from a pool for one run.

    Call in this order, each step: `begin`, `mix`, then, when fresh rows are there, `repair` and
    `buffer`; at the end `finish`. Promises: every draw is a function of (seed, step, pool, book);
    no row is drawn twice in a step; the probability of each pick is exact.
    """

    def __init__(
        self,
        pool: Pool,
        book: TaskBook,
        schedule: Collection[TaskKey],
        policy: Policy,
        chooser: Chooser,
        start: Start,
        run: RunId,
        seed: int,
    ) -> None:
        self.pool = pool
        self.book = book
        self.start = start
        self._policy = policy
        self._chooser = chooser
        self._run = run
        self._seed = seed
        self._tasks = TaskColumns(book, schedule)
        self._now = Now(run, 0, 0)
        self._eligible = np.zeros(0, np.bool_)
        self._weights: Floats = np.zeros(0)
        self._slots = count()
        self._begun = False
        self.taken: list[int] = []  # positions of the rows drawn in this step
        self._joined: set[GroupId] = set()  # groups that they are in

    @property
    def eligible(self) -> int:
        """How many rows may still be drawn in this step."""
        return int(np.count_nonzero(self._eligible))

    @property
    def can_be_drawn(self) -> NDArray[np.bool_]:
        """Mark those rows of the pool."""
        return self._eligible

    def begin(self, step: int, steps: int, version: int) -> None:
        """Bring pool and weights up to date for a step."""
        self.pool.refresh()
        self._tasks.follow(self.pool.tasks)
        self._now = Now(self._run, step, version)
        self._slots = count()
        self.taken, self._joined = [], set()
        self._begun = self.start.has_begun(step, steps, len(self.pool))
        self._eligible = eligible(self.pool, self._tasks, self._policy.rules, self._now)
        self._weights = row_weights(
            self.pool, self._tasks, self._policy.weighing, self._now, self._eligible
        )

    def mix(self, tasks: int) -> list[MixedTask]:
        """Choose the tasks of a step, of `tasks` in all, that are tasks with stored successes."""
        amounts = self._policy.amounts
        if not (self._begun and amounts.mix_ratio):
            return []
        wanted = quota(amounts.mix_ratio, tasks, self.start.since, self._now.step)
        rows = np.flatnonzero(self._eligible & self.pool.facts["success"])
        if self._chooser.choice == "random":  # which never takes a row without weight
            rows = rows[self._weights[rows] > 0]
        numbers = np.unique(self.pool.facts["task"][rows])
        rng = self._stream("mix")
        chosen = self._draw_tasks(numbers, wanted, rng)
        mixed = []
        for place, probability in zip(chosen.positions, chosen.probabilities, strict=True):
            number = int(numbers[place])
            task = self.pool.tasks[number]
            group = group_id(self._run, self._now.step, task.key)
            picks: list[Pick] = []
            if amounts.trains:
                here = rows[self.pool.facts["task"][rows] == number]
                drawn = self._choose(here, amounts.mix_rows, rng)
                exact = Drawn(drawn.positions, drawn.probabilities * probability)
                why = f"task at {self._rate(task.key)}, {self._chooser.choice} of {here.size}"
                picks = self._picks("mix", exact, [group] * exact.positions.size, why)
            mixed.append(MixedTask(task, tuple(picks)))
        return mixed

    def repair(self, fresh: Sequence[Trajectory]) -> list[Pick]:
        """Find stored successes for the groups that have none."""
        wanted = self._policy.amounts.repair_rows
        if not (self._begun and wanted):
            return []
        # A stored success that was mixed in is a success of its group.
        solved = {row.group for row in fresh if row.success} | self._joined
        dead = {row.group: row.task for row in fresh if row.group not in solved}
        picks: list[Pick] = []
        usable = self._eligible & self.pool.facts["success"]
        for group, task in dead.items():
            number = self._tasks.number(task)
            if number is None:
                continue
            rows = np.flatnonzero(usable & (self.pool.facts["task"] == number))
            if rows.size:
                drawn = self._choose(rows, wanted, self._stream("repair", task))
                why = f"no fresh success, {self._chooser.choice} of {rows.size}"
                picks += self._picks("repair", drawn, [group] * drawn.positions.size, why)
        return picks

    def buffer(self) -> list[list[Pick]]:
        """Draw the rows of the extra updates, update by update; advantages are those they had."""
        amounts = self._policy.amounts
        if not (self._begun and amounts.buffer_updates):
            return []
        wanted = amounts.buffer_updates * amounts.buffer_rows
        if amounts.buffer_share is not None:
            share, rows = amounts.buffer_share, amounts.step_rows
            wanted = quota(share, rows, self.start.since, self._now.step)
        if not wanted:
            return []
        known = np.nan_to_num(self.pool.advantage) != 0.0
        weights = np.where(self._eligible & known, self._weights, 0.0)
        rng = self._stream("buffer")
        drawn = self._draw_rows(weights, wanted, rng)
        if not drawn.positions.size:
            return []
        order = rng.permutation(drawn.positions.size)
        drawn = Drawn(drawn.positions[order], drawn.probabilities[order])
        possible = int(np.count_nonzero(weights))
        corrected = priority_weights(drawn.probabilities, possible, amounts.beta)
        groups = [
            group_id(self._run, self._now.step, self.pool.tasks[int(number)].key, part=1)
            for number in self.pool.facts["task"][drawn.positions]
        ]
        why = f"of {possible} rows with an advantage"
        picks = self._picks("buffer", drawn, groups, why, corrected)
        updates = min(amounts.buffer_updates, len(picks))
        return [picks[number::updates] for number in range(updates)]

    def finish(
        self, results: Iterable[Result], fresh: Sequence[Trajectory]
    ) -> tuple[list[TaskState], list[Mark]]:
        """Take in a step's fresh groups: new task states, and marks on rows that leave the pool."""
        results = list(results)
        states = self.book.update(self._now.step, results)
        self._tasks.apply(states)
        self.start.saw(sum(r.successes for r in results), sum(r.rows for r in results))
        unkept = self._policy.keeping.unkept(fresh, results)
        gone = {**unkept, **self._over_budget(len(fresh) - len(unkept))}
        return states, [
            Mark(id_, Action.EVICT, reason, self._run, self._now.step)
            for id_, reason in gone.items()
        ]

    def _draw_tasks(
        self, numbers: NDArray[np.int32], wanted: int, rng: np.random.Generator
    ) -> Drawn:
        """Draw tasks by the weight of their bucket; with a quota, few enough of each domain."""
        weighing, share = self._policy.weighing, self._policy.amounts.max_domain_share
        if not numbers.size or not wanted:
            return NOTHING
        rates = self._tasks.rate[numbers]
        rates = np.where(np.isnan(rates), weighing.center, rates)
        weights = task_weights(rates, weighing.buckets, weighing.center, weighing.sigma)
        if share is None:
            return draw(weights, wanted, rng)
        domains = Quota(self._tasks.domain[numbers], _at_least_one(share * wanted))
        return draw_with_quotas(weights, [domains], wanted, rng)

    def _draw_rows(self, weights: Floats, wanted: int, rng: np.random.Generator) -> Drawn:
        amounts, tasks = self._policy.amounts, self.pool.facts["task"]
        quotas = []
        if amounts.max_domain_share is not None:
            most = _at_least_one(amounts.max_domain_share * wanted)
            quotas.append(Quota(self._tasks.domain[tasks], most))
        if amounts.max_per_task is not None:
            quotas.append(Quota(tasks, amounts.max_per_task))
        return draw_with_quotas(weights, quotas, wanted, rng)

    def _choose(self, rows: NDArray[np.int64], wanted: int, rng: np.random.Generator) -> Drawn:
        return self._chooser.choose(self.pool, rows, self._weights[rows], wanted, rng)

    def _picks(
        self,
        mode: str,
        drawn: Drawn,
        groups: Sequence[GroupId],
        reason: str,
        weights: Floats | None = None,
    ) -> list[Pick]:
        """Read the drawn rows; they cannot be drawn again in this step."""
        at = drawn.positions
        self._eligible[at] = False
        self.taken += at.tolist()
        self._joined.update(groups)
        ages = np.maximum(self.pool.ages(self._now.version, self._run)[at], 0)
        chances, had = drawn.probabilities, self.pool.advantage[at]
        return [
            Pick(
                slot=next(self._slots),
                trajectory=trajectory,
                group=group,
                mode=mode,
                age=int(ages[place]),
                probability=float(chances[place]),
                reason=reason,
                weight=1.0 if weights is None else float(weights[place]),
                advantage=None if np.isnan(had[place]) else float(had[place]),
            )
            for place, (trajectory, group) in enumerate(
                zip(self.pool.trajectories(at), groups, strict=True)
            )
        ]

    def _over_budget(self, arriving: int) -> dict[TrajectoryId, str]:
        """Name rows that make room for those arriving, among those there when the step began."""
        budget, found = self._policy.budget, dict[TrajectoryId, str]()
        if budget == Budget():
            return found
        # A row that only rests, or was drawn in this step, is as useful as one that could be drawn.
        policy, now = self._policy, self._now
        lasting = eligible(self.pool, self._tasks, policy.rules, now, resting=True)
        weights = row_weights(self.pool, self._tasks, policy.weighing, now, lasting)
        useful = np.where(lasting, weights, -1.0)
        if budget.rows_per_task is not None and len(self.pool):
            rows = np.arange(len(self.pool))
            badness = self._chooser.lasting_badness(self.pool, rows)
            over = beyond_task(self.pool, rows, badness, budget.rows_per_task)
            found |= dict.fromkeys(self.pool.ids(over), "more than pool.rows_per_task")
            useful[over] = -np.inf  # they make room already
        if budget.max_rows is not None or budget.max_bytes is not None:
            over = beyond_budget(self.pool, useful, budget.max_rows, budget.max_bytes, arriving)
            found = dict.fromkeys(self.pool.ids(over), "beyond the pool's budget") | found
        return found

    def _rate(self, task: TaskKey) -> str:
        rate = self.book.rate(task)
        return "an unknown success rate" if rate is None else f"success rate {rate:.2f}"

    def _stream(self, purpose: str, *items: str | int) -> np.random.Generator:
        return stream(self._seed, f"replay-{purpose}", self._now.step, *items)


def _at_least_one(amount: float) -> int:
    # 0.29 * 100 is a little less than 29 in floating point.
    return max(1, int(amount + 1e-9))

"""The replayer: decides, step by step, which stored rows train. It stores nothing itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.ledger import Mark, TaskState
from recollect.randomness import stream
from recollect.replay.adaptation import Adaptation, Limits
from recollect.replay.book import Result, TaskBook
from recollect.replay.buckets import task_weights
from recollect.replay.choice import Chooser
from recollect.replay.eligibility import Now, concerning, eligible
from recollect.replay.eviction import beyond_budget, beyond_task
from recollect.replay.index import DrawIndex, Scheme
from recollect.replay.pick import Pick
from recollect.replay.policy import Budget, Policy
from recollect.replay.pool import Pool
from recollect.replay.quotas import at_least_one
from recollect.replay.sampling import NOTHING, Drawn, draw
from recollect.replay.starting import Start, quota
from recollect.replay.task_columns import TaskColumns
from recollect.replay.task_quotas import draw_tasks
from recollect.replay.weights import (
    grown_beta,
    largest_weight,
    priority_weights,
    row_weights,
)
from recollect.trajectory import Trajectory
from recollect.types import Action, GroupId, RunId, Task, TaskKey, TrajectoryId, group_id

Floats: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class MixedTask:
    """A task of the plan that stored rows were drawn for."""

    task: Task
    picks: tuple[Pick, ...]


class Replayer:
    """Draws from a pool for one run.

    Call in this order, each step: `begin`, `mix`, then, when fresh rows are there, `repair` and
    `buffer`; at the end `finish`. Promises: every draw is a function of (seed, step, pool, book);
    no row is drawn twice in a step; the probability of each pick is exact. A drawn row that cannot
    be read is left out (`lost`): that is no reason to end a run.
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
        adaptation: Adaptation | None = None,
    ) -> None:
        self.pool = pool
        self.book = book
        self.start = start
        self._policy = policy
        self.adaptation = adaptation
        self._rules = policy.rules
        self.limits = Limits(policy.rules.max_age, policy.rules.max_uses, policy.budget.max_rows)
        self._chooser = chooser
        self._run = run
        self._seed = seed
        self._tasks = TaskColumns(book, schedule)
        self._now = Now(run, 0, 0)
        amounts = policy.amounts
        scheme = Scheme(
            policy.weighing,
            amounts.needs_advantage,
            chooser.choice == "random",  # which never takes a row without weight
            amounts.max_per_task,
            amounts.max_domain_share,
            amounts.domains_alike,
        )
        self._index = DrawIndex(pool, self._tasks, scheme)
        self._slots = count()
        self._begun = False
        self._looked = False  # for stored rows, in this step
        self.taken: list[int] = []  # positions of the rows drawn in this step
        self._joined: set[GroupId] = set()  # groups that they are in

    @property
    def eligible(self) -> int:
        """How many rows may still be drawn in this step."""
        return int(np.count_nonzero(self._index.allowed))

    @property
    def can_be_drawn(self) -> NDArray[np.bool_]:
        """Mark those rows of the pool."""
        return self._index.allowed

    @property
    def lost(self) -> dict[str, str]:
        """Rows that this step could not read, with the reason: damaged, or gone meanwhile."""
        return self.pool.lost

    @property
    def in_vain(self) -> bool:
        """Whether this step has looked for stored rows and found none."""
        return self._looked and not self.taken

    @property
    def ages(self) -> NDArray[np.int32]:
        """Age of the pool's rows in this step; -1 if no policy sampled them."""
        return self.pool.ages(self._now.version, self._run)

    def begin(self, step: int, steps: int, version: int) -> None:
        """Bring pool and weights up to date for a step."""
        self.pool.refresh()
        self._tasks.follow(self.pool.tasks)
        self._now = Now(self._run, step, version)
        self._slots = count()
        self.taken, self._joined, self._looked = [], set(), False
        self._begun = self.start.has_begun(step, steps, len(self.pool))
        if self.adaptation is not None:
            self.limits = self.adaptation.limits(step, steps)
            self._begun = self._begun and self.limits.level > 0
            self._rules = replace(
                self._policy.rules, max_age=self.limits.max_age, max_uses=self.limits.max_uses
            )
        self._index.update(self._rules, self._now)

    def mix(self, tasks: int) -> list[MixedTask]:
        """Choose the tasks of a step, of `tasks` in all, that are tasks with stored successes."""
        amounts = self._policy.amounts
        if not (self._begun and amounts.mix_ratio):
            return []
        share = amounts.mix_ratio * self.limits.level
        wanted = quota(share, tasks, self.start.since, self._now.step)
        self._looked |= wanted > 0
        numbers = self._index.solved_tasks()
        rng = self._stream("mix")
        chosen = self._draw_tasks(numbers, wanted, rng)
        mixed = []
        for place, probability in zip(chosen.positions, chosen.probabilities, strict=True):
            number = int(numbers[place])
            task = self.pool.tasks[number]
            group = group_id(self._run, self._now.step, task.key)
            picks: list[Pick] = []
            if amounts.trains:
                here = self._index.successes(number)
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
        unsolved = {row.group: row.task for row in fresh if row.group not in solved}
        self._looked |= bool(unsolved)
        picks: list[Pick] = []
        for group, task in unsolved.items():
            number = self._tasks.number(task)
            if number is None:
                continue
            rows = self._index.successes(number)
            if rows.size:
                drawn = self._choose(rows, wanted, self._stream("repair", task))
                why = f"no fresh success, {self._chooser.choice} of {rows.size}"
                picks += self._picks("repair", drawn, [group] * drawn.positions.size, why)
        return picks

    def buffer(self) -> list[list[Pick]]:
        """Draw the rows of the extra updates, update by update; advantages are those they had."""
        amounts = self._policy.amounts
        wanted = self._buffer_rows()
        if not (self._begun and wanted):
            return []
        self._looked = True
        rng, possible = self._stream("buffer"), self._index.possible
        drawn = self._index.draw(wanted, rng)
        if not drawn.positions.size:
            return []
        order = rng.permutation(drawn.positions.size)
        drawn = Drawn(drawn.positions[order], drawn.probabilities[order])
        corrected = self._priority_weights(drawn, possible, wanted)
        groups = [
            group_id(self._run, self._now.step, self.pool.tasks[int(number)].key, part=1)
            for number in self.pool.facts["task"][drawn.positions]
        ]
        why = f"of {possible} rows" + (" with an advantage" if amounts.needs_advantage else "")
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
        self, numbers: NDArray[np.int64], wanted: int, rng: np.random.Generator
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
        domains = self._tasks.domain[numbers]
        return draw_tasks(weights, domains, at_least_one(share * wanted), wanted, rng)

    def _buffer_rows(self) -> int:
        """Count the rows of this step's extra updates, all together."""
        amounts, level = self._policy.amounts, self.limits.level
        if not amounts.buffer_updates:
            return 0
        if amounts.buffer_share is not None:
            share = level * amounts.buffer_share
            rows = quota(share, amounts.step_rows, self.start.since, self._now.step)
            return rows if self._begun else 0
        whole = amounts.buffer_updates * amounts.buffer_rows
        return whole if level == 1.0 else at_least_one(level * whole)

    def _priority_weights(self, drawn: Drawn, possible: int, wanted: int) -> NDArray[np.float64]:
        """Weigh drawn rows against the rule by which they came."""
        amounts = self._policy.amounts
        beta = grown_beta(amounts.beta, amounts.beta_growth, self.start.since, self._now.step)
        scale = None if amounts.weight_scale == "draw" else 1.0
        if amounts.weight_scale == "pool":
            every = self._index.chances(wanted)
            scale = largest_weight(every[every > 0], drawn.positions.size, beta)
        return priority_weights(drawn.probabilities, possible, beta, scale)

    def _choose(self, rows: NDArray[np.int64], wanted: int, rng: np.random.Generator) -> Drawn:
        weights = self._index.weights(rows)
        return self._chooser.choose(self.pool, rows, weights, wanted, rng)

    def _picks(
        self,
        mode: str,
        drawn: Drawn,
        groups: Sequence[GroupId],
        reason: str,
        weights: Floats | None = None,
    ) -> list[Pick]:
        """Read the drawn rows; none of them can be drawn again in this step."""
        at = drawn.positions
        self._index.take(at)
        found = self.pool.read(at)
        self.taken += found
        self._joined.update(
            group for row, group in zip(at.tolist(), groups, strict=True) if row in found
        )
        ages = np.maximum(self.pool.ages(self._now.version, self._run, at), 0)
        chances = drawn.probabilities
        advantages, priorities = self.pool.advantage[at], self.pool.priority[at]
        return [
            Pick(
                slot=next(self._slots),
                trajectory=found[row],
                group=group,
                mode=mode,
                age=int(ages[place]),
                probability=float(chances[place]),
                reason=reason,
                weight=1.0 if weights is None else float(weights[place]),
                advantage=_known(advantages[place]),
                priority=_known(priorities[place]),
            )
            for place, (row, group) in enumerate(zip(at.tolist(), groups, strict=True))
            if row in found
        ]

    def _over_budget(self, arriving: int) -> dict[TrajectoryId, str]:
        """Name rows that make room for those arriving, among those there when the step began.

        Rows that only other runs of the store can have a use for are neither counted nor let go.
        """
        budget = replace(self._policy.budget, max_rows=self.limits.max_rows)
        found = dict[TrajectoryId, str]()
        if budget == Budget():
            return found
        # A row that only rests, or was drawn in this step, is as useful as one that could be drawn;
        # so is one that only the limits of the moment keep out.
        policy, now = self._policy, self._now
        rules = policy.rules
        if self.adaptation is not None:
            rules = replace(rules, max_uses=self.adaptation.most_uses)
        lasting = eligible(self.pool, self._tasks, rules, now, resting=True)
        weights = row_weights(self.pool, self._tasks, policy.weighing, now, lasting)
        rows = np.flatnonzero(concerning(self.pool, self._tasks, rules.fingerprints, self._run))
        lasting = lasting[rows]
        useful = np.where(lasting, weights[rows], -1.0)
        if budget.rows_per_task is not None and rows.size:
            # Whatever was best once: a row that can never be drawn again keeps no other's place.
            badness = np.where(lasting, self._chooser.lasting_badness(self.pool, rows), np.inf)
            over = beyond_task(self.pool, rows, badness, budget.rows_per_task)
            found |= dict.fromkeys(self.pool.names(over), "more than pool.rows_per_task")
            useful[np.isin(rows, over)] = -np.inf  # they make room already
        if budget.max_rows is not None or budget.max_bytes is not None:
            most, bytes_ = budget.max_rows, budget.max_bytes
            over = beyond_budget(self.pool, rows, useful, most, bytes_, arriving)
            found = dict.fromkeys(self.pool.names(over), "beyond the pool's budget") | found
        return found

    def _rate(self, task: TaskKey) -> str:
        rate = self.book.rate(task)
        return "an unknown success rate" if rate is None else f"success rate {rate:.2f}"

    def _stream(self, purpose: str, *items: str | int) -> np.random.Generator:
        return stream(self._seed, f"replay-{purpose}", self._now.step, *items)


def _known(value: np.float32) -> float | None:
    return None if np.isnan(value) else float(value)

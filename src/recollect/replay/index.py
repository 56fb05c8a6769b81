"""The index of draws: who may be drawn and how likely, kept up to date instead of found out anew.

Between two steps few rows change. Everything else a row's weight depends on is either the same for
all (the policy grows older, and so do all rows) or known in advance (when a row is too old, when it
has rested). So a step looks at the rows for which something happened, and a draw at sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recollect.replay.blocks import Blocks
from recollect.replay.calendar import Calendar
from recollect.replay.eligibility import Now, Rules, drawable
from recollect.replay.groups import Floats, Ints
from recollect.replay.pool import Pool
from recollect.replay.quotas import at_least_one, fair_shares, outcomes, whole_numbers
from recollect.replay.sampling import NOTHING, Drawn
from recollect.replay.task_columns import TaskColumns
from recollect.replay.task_quotas import Shelf, chances_by_task, draw_by_task
from recollect.replay.task_rows import TaskRows
from recollect.replay.task_totals import TaskTotals
from recollect.replay.weights import Weighing, weigh

_WINDOW = 64  # half-lives from one epoch to the next: weights grow by no more than 2^64 meanwhile
_LARGEST = 2.0**900  # no sum of weights overflows


@dataclass(frozen=True, slots=True)
class Scheme:
    """What a draw goes by, fixed for a run.

    `needs_advantage`: rows without one are not drawn. `successes_by_weight`: a success can be mixed
    in only if it has a weight. Quotas: `per_task` rows of a task, `domain_share` of a draw for a
    domain; None = no limit. `domains_alike`: each gives the same, as far as it has rows.
    """

    weighing: Weighing
    needs_advantage: bool = False
    successes_by_weight: bool = False
    per_task: int | None = None
    domain_share: float | None = None
    domains_alike: bool = False

    @property
    def by_domain(self) -> bool:
        """Tell whether it matters of which domain a row is."""
        return self.domains_alike or self.domain_share is not None


class DrawIndex:
    """Eligibility and weights of the pool's rows, with the sums that draws need.

    `update` once a step, after the pool was refreshed. Promises: what is drawn is a function of the
    generator, the pool, the tasks, the rules and the moment, not of what was seen before; an index
    made anew draws the same, bit for bit.
    """

    def __init__(self, pool: Pool, tasks: TaskColumns, scheme: Scheme) -> None:
        self._pool = pool
        self._tasks = tasks
        self._scheme = scheme
        self._allowed = pool.attach(np.bool_)
        self._success = pool.attach(np.bool_)  # and allowed: can be mixed in
        self._weight = pool.attach(np.float64)
        self._place: int | None = None  # in the pool's journal; None = nothing was seen yet
        self._moves = -1
        self._rules: Rules | None = None
        self._now: Now | None = None
        self._epoch = 0
        self._taken = np.empty(0, np.int64)  # rows [seq] drawn since the last update
        self._calendar = Calendar(pool)
        self.rows = TaskRows(pool)
        self._blocks = Blocks(lambda: self._weight.values, self._domain_of)
        self._totals = TaskTotals(pool, self.rows, lambda: self._weight.values)
        self._successes = np.zeros(0, np.int64)  # by task

    # -- what is known ---------------------------------------------------------------------

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Mark the rows that may be drawn; not to be written to."""
        return self._allowed.values

    @property
    def possible(self) -> int:
        """How many rows `draw` could give: they may be drawn and have a weight."""
        return int(self._blocks.counts().sum())

    def solved_tasks(self) -> Ints:
        """Numbers of the tasks with a success that may be drawn, ascending."""
        return np.flatnonzero(self._successes)

    def successes(self, number: int) -> Ints:
        """Rows [positions] of a task that are such successes."""
        rows, _ = self.rows.of(np.array([number]))
        return np.asarray(rows[self._success.values[rows]])

    def weights(self, rows: Ints) -> Floats:
        """Weights of rows [positions] relative to each other, with an advantage or without."""
        assert self._now is not None
        scheme, now = self._scheme, self._now
        found = weigh(self._pool, self._tasks, scheme.weighing, now, rows, self._epoch)
        return np.where(self.allowed[rows], found, 0.0)

    # -- following -------------------------------------------------------------------------

    def update(self, rules: Rules, now: Now) -> None:
        """Bring everything up to date with the pool, the tasks and the moment."""
        epoch = self._epoch_at(now.version)
        changed = None if self._place is None else self._pool.journal.since(self._place)
        moved = self._moves != self._pool.moves
        again = changed is None or epoch != self._epoch or self._has_turned(rules, now)
        before, self._rules, self._now, self._epoch = self._now, rules, now, epoch
        self._blocks.follow(len(self._pool), self._labels(), moved or again)
        if moved or again:
            self._totals.forget()
        if again or changed is None or before is None:
            self._calendar.clear()
            rows = np.arange(len(self._pool))
        else:
            rows = self._to_look_at(changed, before)
        self._look_at(rows)
        if moved or again:
            tasks = self._pool.facts["task"]
            self._successes = np.bincount(tasks[self._success.values], minlength=1)
        self._place, self._moves = self._pool.journal.place, self._pool.moves
        self._taken = np.empty(0, np.int64)
        self._tasks.moved.clear()
        self._tasks.turned.clear()
        self._calendar.note_runs(now)

    def take(self, rows: Ints) -> None:
        """Let rows not be drawn again until the next update."""
        self._taken = np.concatenate((self._taken, self._pool.seq[rows]))
        no = np.zeros(rows.size, np.bool_)
        self._write(rows, no, no, np.zeros(rows.size))

    def _has_turned(self, rules: Rules, now: Now) -> bool:
        """Tell whether every row must be looked at: other rules, or time that went back."""
        if self._rules is None or self._now is None:
            return True
        if replace(rules, max_age=None) != replace(self._rules, max_age=None):
            return True
        back = now.version < self._now.version or now.step < self._now.step
        older, old = rules.max_age, self._rules.max_age
        if older is None or old is None:
            longer = older != old
        else:
            longer = now.version - older < self._now.version - old
        return back or longer or now.run != self._now.run or self._calendar.is_ahead(now)

    def _to_look_at(self, changed: Ints, before: Now) -> Ints:
        """Positions of the rows for which something happened since the last update."""
        assert self._rules is not None
        assert self._now is not None
        seqs = np.concatenate((changed, self._taken, self._calendar.woken(self._rules, self._now)))
        parts = [self._pool.find(np.unique(seqs))]
        parts.append(self._calendar.expired(self._rules, self._now, self.allowed))
        if self._ages_matter():
            parts.append(self._calendar.shifted(self._now))
        older = self._scheme.weighing.half_life is not None and before.version != self._now.version
        if older and not self._rules.needs_logprobs:  # with them, ageless rows are never drawn
            parts.append(np.flatnonzero(self._pool.facts["version"] < 0))
        tasks = self._tasks.turned
        if self._scheme.weighing.buckets != "uniform":
            tasks = tasks | self._tasks.moved
        if tasks:
            parts.append(self.rows.of(np.array(sorted(tasks)))[0])
        return np.unique(np.concatenate(parts))

    def _look_at(self, rows: Ints) -> None:
        """Find out anew whether rows may be drawn, and how likely."""
        assert self._rules is not None
        assert self._now is not None
        pool, scheme = self._pool, self._scheme
        self._calendar.enter(rows, self._rules, self._now)
        allowed = drawable(pool, self._tasks, self._rules, self._now, rows)
        weights = np.zeros(rows.size)
        weights[allowed] = weigh(
            pool, self._tasks, scheme.weighing, self._now, rows[allowed], self._epoch
        )
        success = allowed & pool.facts["success"][rows]
        if scheme.successes_by_weight:  # what never takes a row without weight
            success &= weights > 0
        if scheme.needs_advantage:
            weights[np.nan_to_num(pool.advantage[rows]) == 0.0] = 0.0
        self._write(rows, allowed, success, np.minimum(weights, _LARGEST))

    def _write(
        self, rows: Ints, allowed: NDArray[np.bool_], success: NDArray[np.bool_], weights: Floats
    ) -> None:
        change = success.astype(np.int64) - self._success.values[rows]
        tasks = self._pool.facts["task"][rows[change != 0]]
        if tasks.size:
            size = max(self._successes.size, int(tasks.max()) + 1)
            counts = np.bincount(tasks, change[change != 0], size).astype(np.int64)
            counts[: self._successes.size] += self._successes
            self._successes = counts
        self._allowed.values[rows], self._success.values[rows] = allowed, success
        differs = rows[self._weight.values[rows] != weights]
        self._weight.values[rows] = weights
        self._blocks.touch(differs)
        if self._scheme.per_task is not None:
            self._totals.touch(differs)

    def _epoch_at(self, version: int) -> int:
        """The version that weights count from: a function of the version now alone."""
        half_life = self._scheme.weighing.half_life
        window = 1 if half_life is None else max(1, int(_WINDOW * half_life))
        return 0 if half_life is None else version // window * window

    def _ages_matter(self) -> bool:
        assert self._rules is not None
        return self._rules.max_age is not None or self._scheme.weighing.half_life is not None

    # -- drawing ---------------------------------------------------------------------------

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw up to `count` rows by weight within the quotas; probabilities are exact."""
        if self._scheme.per_task is not None:
            return draw_by_task(self._shelf(), self._most(count), count, self._fetch, rng)
        if not self._scheme.by_domain:
            return self._blocks.draw_rows(count, rng)
        return self._draw_by_domain(count, rng)

    def chances(self, count: int) -> NDArray[np.float64]:
        """Inclusion probability of every row with a weight, in no particular order: a long look."""
        if self._scheme.per_task is not None:
            return chances_by_task(self._shelf(), self._most(count), count, self._fetch)
        shares = self._domain_shares(count)
        found = [
            self._domain_chances(label, float(shares[label]), self._blocks.rows(label))
            for label in np.flatnonzero(shares).tolist()
        ]
        return np.concatenate(found) if found else np.zeros(0)

    def _draw_by_domain(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw with rules for domains only: in each as many as it gives, by weight."""
        shares = self._domain_shares(count)
        counts = whole_numbers(shares, rng)
        rows, chances = [], []
        for label in np.flatnonzero(counts):
            cut = self._blocks.cut(int(counts[label]), int(label))
            rows.append(self._blocks.draw(cut, rng, int(label)))
            chances.append(self._domain_chances(int(label), float(shares[label]), rows[-1]))
        if not rows:
            return NOTHING
        order = np.argsort(joined := np.concatenate(rows), kind="stable")
        return Drawn(joined[order], np.concatenate(chances)[order])

    def _domain_shares(self, count: int) -> NDArray[np.float64]:
        totals, room = self._blocks.totals(), self._blocks.counts().astype(np.float64)
        if self._scheme.domains_alike:
            totals = np.sign(totals)
        most = self._most(count)
        return fair_shares(totals, room if most is None else np.minimum(room, most), count)

    def _domain_chances(self, label: int, share: float, rows: Ints) -> NDArray[np.float64]:
        found, weights = np.zeros(rows.size), self._weight.values[rows]
        for count, likely in outcomes(share):
            found += likely * self._blocks.cut(count, label).chances(rows, weights)
        return np.clip(found, np.finfo(np.float64).tiny, 1.0)

    def _most(self, count: int) -> int | None:
        share = self._scheme.domain_share
        return None if share is None else at_least_one(share * count)

    def _shelf(self) -> Shelf:
        assert self._scheme.per_task is not None
        sums, counts = self._totals.totals()
        numbers = np.flatnonzero(sums)
        apart = self._scheme.by_domain
        domains = self._tasks.domain[numbers] if apart else np.zeros(numbers.size)
        most = np.minimum(counts[numbers], self._scheme.per_task).astype(np.float64)
        alike = self._scheme.domains_alike
        return Shelf(numbers, sums[numbers], most, domains.astype(np.int64), alike)

    def _fetch(self, numbers: Ints) -> tuple[Ints, Ints, Floats]:
        rows, starts = self.rows.of(numbers)
        weights = self._weight.values[rows]
        filled = weights > 0
        before = np.concatenate(([0], np.cumsum(filled)))
        return rows[filled], before[starts], weights[filled]

    def _labels(self) -> int:
        """How many parts of the pool have sums of their own."""
        apart = self._scheme.by_domain and self._scheme.per_task is None
        return max(1, self._tasks.domains) if apart else 1

    def _domain_of(self, rows: Ints) -> NDArray[np.int32]:
        return np.asarray(self._tasks.domain[self._pool.facts["task"][rows]])

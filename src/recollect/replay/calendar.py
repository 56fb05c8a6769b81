"""The calendar: which rows time alone will change, and when."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recollect.replay.blocks import BLOCK
from recollect.replay.eligibility import Now, Rules
from recollect.replay.groups import Ints, spans
from recollect.replay.pool import Pool

_NEVER = np.iinfo(np.int64).max


class Calendar:
    """Rows at rest by the step that last used them, and how old the oldest of each block is.

    It only says where to look again: a row that is named too often costs time and changes nothing.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self._resting: dict[int, list[NDArray[np.int64]]] = {}  # rows [seq] by last use
        self._moves = self._pool.moves
        self._oldest = np.full(0, _NEVER)  # birth of the oldest row of a block that is young enough
        self._newest: dict[int, int] = {}  # version by run
        self._was_ahead = False

    def enter(self, rows: Ints, rules: Rules, now: Now) -> None:
        """Take in rows [positions] as they are now."""
        if rules.cooldown:
            last = self._pool.last_use[rows]
            resting = (last >= 0) & (last >= now.step - rules.cooldown)
            seqs, steps = self._pool.seq[rows[resting]], last[resting]
            for step in np.unique(steps).tolist():
                self._resting.setdefault(step, []).append(seqs[steps == step])
        if rules.max_age is not None:
            self._grow()
            births = self._births(rows, rules.max_age, now)
            np.minimum.at(self._oldest, rows // BLOCK, births)

    def woken(self, rules: Rules, now: Now) -> Ints:
        """Rows [seq] whose rest is over, each once."""
        due = [step for step in self._resting if step < now.step - rules.cooldown]
        found = [part for step in due for part in self._resting.pop(step)]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def expired(self, rules: Rules, now: Now, allowed: NDArray[np.bool_]) -> Ints:
        """Rows [positions] that have grown too old; others of their blocks may be among them.

        `allowed` marks the rows that could be drawn before.
        """
        if rules.max_age is None:
            return np.empty(0, np.int64)
        if self._moves != self._pool.moves:
            return self._expired_of_all(rules.max_age, now, allowed)
        self._grow()
        blocks = np.flatnonzero(self._oldest < now.version - rules.max_age)
        begins = blocks * BLOCK
        rows, starts = spans(begins, np.minimum(begins + BLOCK, len(self._pool)) - begins)
        if blocks.size:
            births = self._births(rows, rules.max_age, now)
            self._oldest[blocks] = np.minimum.reduceat(births, starts)
        return rows

    def _expired_of_all(self, max_age: int, now: Now, allowed: NDArray[np.bool_]) -> Ints:
        """The same where rows have other positions than before."""
        births = self._births(np.arange(len(self._pool)), max_age, now)
        starts = np.arange(0, births.size, BLOCK)
        self._oldest = np.minimum.reduceat(births, starts) if births.size else births
        self._moves = self._pool.moves
        return np.flatnonzero(allowed & (births == _NEVER))

    def shifted(self, now: Now) -> Ints:
        """Rows [positions] of other runs whose newest version is another: all age with it."""
        runs = [
            number
            for number, run in self._pool.runs.items()
            if run != now.run and self._pool.newest(number) != self._newest.get(number, -1)
        ]
        if not runs:
            return np.empty(0, np.int64)
        return np.flatnonzero(np.isin(self._pool.facts["run"], runs))

    def note_runs(self, now: Now) -> None:
        """Remember how far the runs have come."""
        self._newest = {number: self._pool.newest(number) for number in self._pool.runs}
        self._was_ahead = self._runs_ahead(now)

    def is_ahead(self, now: Now) -> bool:
        """Tell whether rows of the run itself are, or were, from a later version than now.

        Their age is 0 until the version is reached: they do not grow old with the others.
        """
        return self._was_ahead or self._runs_ahead(now)

    def _runs_ahead(self, now: Now) -> bool:
        own = (number for number, run in self._pool.runs.items() if run == now.run)
        return any(self._pool.newest(number) > now.version for number in own)

    def _births(self, rows: Ints, max_age: int, now: Now) -> Ints:
        """Version at which rows were born, as ages count; never for those that cannot expire."""
        ages = self._pool.ages(now.version, now.run, rows).astype(np.int64)
        return np.where((ages < 0) | (ages > max_age), _NEVER, now.version - ages)

    def _grow(self) -> None:
        more = -(-len(self._pool) // BLOCK) - self._oldest.size
        if more > 0:
            self._oldest = np.concatenate((self._oldest, np.full(more, _NEVER)))

"""Which rows of a task are taken, once the task is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.replay.pool import Pool
from recollect.replay.sampling import NOTHING, Drawn, draw
from recollect.trajectory import Trajectory

Choice: TypeAlias = Literal["lowest_entropy", "highest_entropy", "random", "newest", "likeliest"]
Floats: TypeAlias = NDArray[np.floating[Any]]

# Mean log-prob per sampled token of each trajectory under the policy as it is now.
Likelihood: TypeAlias = Callable[[Sequence[Trajectory]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses rows of one task. `likelihood` is asked for `likeliest` only, in one pass."""

    choice: Choice
    candidates: int
    likelihood: Likelihood

    def choose(
        self,
        pool: Pool,
        rows: NDArray[np.int64],
        weights: Floats,
        count: int,
        rng: np.random.Generator,
    ) -> Drawn:
        """Take up to `count` of the pool's `rows` (ascending positions), whose weights are given.

        The probabilities are those of a row given its task: 1 for every rule but `random`. A row
        whose entropy is not known comes last under either entropy rule. Ties go to the newer row.
        """
        if self.choice == "random":
            drawn = draw(weights, count, rng)
            return Drawn(rows[drawn.positions], drawn.probabilities)
        if self.choice == "likeliest":
            readable = pool.read(rows[-self.candidates :])
            if not readable:
                return NOTHING
            rows = np.fromiter(readable, np.int64, len(readable))
            keys: Floats = -np.asarray(self.likelihood(list(readable.values())), dtype=np.float64)
        else:
            keys = self._badness(pool, rows)
        best = np.sort(rows[np.lexsort((-rows, keys))[:count]])
        return Drawn(best, np.ones(best.size))

    def lasting_badness(self, pool: Pool, rows: NDArray[np.int64]) -> Floats:
        """What rows are kept by, the best first: as they are chosen, or the newest.

        Neither chance nor the policy of the moment can say which row is worth keeping.
        """
        if self.choice in ("lowest_entropy", "highest_entropy"):
            return self._badness(pool, rows)
        return -rows.astype(np.float64)

    def _badness(self, pool: Pool, rows: NDArray[np.int64]) -> Floats:
        """What is sorted by, the best first, where no policy is asked."""
        if self.choice == "newest":
            return -rows.astype(np.float64)
        entropies = pool.facts["entropy"][rows].astype(np.float64)
        signed = entropies if self.choice == "lowest_entropy" else -entropies
        return np.where(np.isnan(entropies), np.inf, signed)

"""Taking rows into the pool: one capacity per task, no row twice, nobody lost uncounted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recollect.integrations.agentevolver.settings import ExperienceSettings
from recollect.integrations.agentevolver.shelf import Shelf, badness
from recollect.trajectory import Trajectory
from recollect.types import TaskKey, TrajectoryId


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of the rows of one save.

    `saved` are in the pool; `crowded_out` were worse than those that fill their task's places;
    `repeated` had the tokens of another row; `without_log_probs` had no behaviour log-probs.
    `evicted` earlier rows made room.
    """

    saved: int = 0
    crowded_out: int = 0
    repeated: int = 0
    without_log_probs: int = 0
    evicted: int = 0


@dataclass(slots=True)
class Intake:
    """What one transaction will do: rows that come, rows that go (with the reason), counts."""

    coming: list[Trajectory] = field(default_factory=list)
    going: dict[TrajectoryId, str] = field(default_factory=dict)
    crowded_out: int = 0
    repeated: int = 0

    def take(
        self, shelf: Shelf, task: TaskKey, given: Sequence[Trajectory], rules: ExperienceSettings
    ) -> None:
        """Find places for new rows of a task among those it has."""
        rows = shelf.rows(task)
        ids = shelf.pool.ids(rows)
        new = [row for row in given if row.id not in ids]
        # Saved again: nothing happens, unless the content changed, which the store refuses.
        self.coming += [row for row in given if row.id in ids]
        if rules.deduplicate:
            new, older = self._without_repeats(shelf, rows, new)
            rows = rows[~np.isin(rows, older)]
            self.going |= dict.fromkeys(shelf.pool.ids(older), "same tokens, sampled again")
        places = _places(shelf, rows, new, rules)[: rules.max_trajectories_per_task]
        kept = {place - rows.size for place in places if place >= rows.size}
        self.coming += [row for number, row in enumerate(new) if number in kept]
        self.crowded_out += len(new) - len(kept)
        stays = np.isin(np.arange(rows.size), places) | shelf.pool.pinned[rows]
        self.going |= dict.fromkeys(shelf.pool.ids(rows[~stays]), "max_trajectories_per_task")

    def _without_repeats(
        self, shelf: Shelf, rows: NDArray[np.int64], new: Sequence[Trajectory]
    ) -> tuple[list[Trajectory], NDArray[np.int64]]:
        """Leave out new rows that repeat each other; name older rows that a new one repeats.

        The newer twin stays: its log-probs are those of a younger policy. A pinned one, though,
        stays whatever comes.
        """
        older = dict[bytes, int]()
        for place, stored in shelf.read(rows).items():
            older[stored.tokens.tobytes()] = place
        different: dict[bytes, Trajectory] = {}
        replaced = []
        for row in new:
            content = row.tokens.tobytes()
            twin = older.get(content)
            if content in different or (twin is not None and shelf.pool.pinned[twin]):
                self.repeated += 1
                continue
            different[content] = row
            if twin is not None:
                replaced.append(twin)
        return list(different.values()), np.array(replaced, np.int64)


def _places(
    shelf: Shelf, rows: NDArray[np.int64], new: Sequence[Trajectory], rules: ExperienceSettings
) -> list[int]:
    """Order old rows [0, len(rows)) and new ones behind them, the best first.

    Pinned rows come first, and rows that may no longer be replayed last.
    """
    pool = shelf.pool
    means = [float("nan") if row.mean_entropy is None else row.mean_entropy for row in new]
    # The pool keeps entropies as float32; compare like with like.
    fresh = np.asarray(means, dtype=np.float32).astype(np.float64)
    entropies = np.concatenate((pool.facts["entropy"][rows].astype(np.float64), fresh))
    arrival = np.concatenate((rows, len(pool) + np.arange(len(new))))
    free = np.concatenate((~pool.pinned[rows], np.ones(len(new), np.bool_)))
    stale = np.concatenate((~shelf.is_usable(rows), np.zeros(len(new), np.bool_)))
    order = np.lexsort((-arrival, badness(rules.exp_select_mode, entropies), stale, free))
    return [int(place) for place in order]

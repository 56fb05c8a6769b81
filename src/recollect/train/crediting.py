"""Scoring with a critic: every sampled token gets its own advantage, fresh or stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recollect.config.schema.config import Config
from recollect.replay.pick import Pick
from recollect.train.batch import Batch, ScoredRow, by_group
from recollect.train.credit import Credit, credit, whitened
from recollect.train.drawn import Drawn
from recollect.train.learner import Learner
from recollect.train.shelf import Shelf
from recollect.trajectory import Trajectory


class Crediting:
    """Turns a step's rows into a scored batch by GAE, with the learner's critic.

    Stored rows are credited by the critic as it is now or, with `critic.at_use` = stored, as they
    were when fresh. All advantages of a step are whitened together, so that fresh and stored
    tokens have one scale.
    """

    def __init__(self, config: Config, learner: Learner) -> None:
        self._algo = config.algo
        self._learner = learner
        self._shelf: Shelf | None = None
        if config.replay.modes and config.critic.at_use == "stored":
            assert config.pool.max_age is not None, "the configuration refuses that"
            self._shelf = Shelf(config.pool.max_age)

    def score(self, fresh: Sequence[Trajectory], drawn: Drawn) -> Batch:
        """Credit the tokens of all rows of a step; stored rows stand beside their group's."""
        picks = [*drawn.grouped, *(pick for update in drawn.updates for pick in update)]
        found = whitened(
            [*self._of_fresh(fresh), *self._of_stored([pick.trajectory for pick in picks])],
            self._algo.whiten,
        )
        origins: list[Pick | None] = [*([None] * len(fresh)), *picks]
        rows = [*fresh, *(pick.trajectory for pick in picks)]
        scored = [
            ScoredRow(row, each.advantage, True, pick, credit=each)
            for row, each, pick in zip(rows, found, origins, strict=True)
        ]
        together = len(fresh) + len(drawn.grouped)
        return Batch(by_group(scored[:together]), _like(drawn.updates, scored[together:]))

    def save(self, folder: Path) -> None:
        """Write what a checkpoint must keep beside the critic."""
        if self._shelf is not None:
            self._shelf.save(folder)

    def restore(self, folder: Path) -> None:
        """Take it back."""
        if self._shelf is not None:
            self._shelf.restore(folder)

    def _of_fresh(self, rows: Sequence[Trajectory]) -> list[Credit]:
        found = self._of_now(rows)
        if self._shelf is not None:
            ids = [row.id for row in rows]
            self._shelf.put(dict(zip(ids, found, strict=True)), self._learner.version)
        return found

    def _of_stored(self, rows: Sequence[Trajectory]) -> list[Credit]:
        if self._shelf is None:
            return self._of_now(rows)
        known = [self._shelf.get(row.id) for row in rows]
        missing = [row for row, each in zip(rows, known, strict=True) if each is None]
        computed = iter(self._of_now(missing))
        return [next(computed) if each is None else each for each in known]

    def _of_now(self, rows: Sequence[Trajectory]) -> list[Credit]:
        if not rows:
            return []
        return credit(
            [row.reward.value for row in rows],
            self._learner.values(rows),
            self._learner.token_penalties(rows),
            gamma=self._algo.gamma,
            lam=self._algo.lam,
        )


def _like(
    updates: Sequence[Sequence[Pick]], rows: Sequence[ScoredRow]
) -> tuple[tuple[ScoredRow, ...], ...]:
    """Divide rows as the picks they come from are divided."""
    left = iter(rows)
    return tuple(tuple(next(left) for _ in update) for update in updates)

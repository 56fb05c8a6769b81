"""The rows of a step as they will train: some of them without the notes they were sampled with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from recollect.config.schema.config import Config
from recollect.notes.allocation import keeps_alone, kept_tasks
from recollect.notes.strip import has_notes, stripped
from recollect.replay.pick import Pick
from recollect.train.batch import Batch, ScoredRow
from recollect.train.drawn import Drawn
from recollect.trajectory import Trajectory
from recollect.types import Task


@dataclass(frozen=True, slots=True)
class Views:
    """Fresh and stored rows to be scored; `bare` are the ids of those that lost their notes."""

    fresh: tuple[Trajectory, ...]
    drawn: Drawn
    bare: frozenset[str] = frozenset()

    def marked(self, batch: Batch) -> Batch:
        """Say of each row of a batch whether it lost its notes."""
        if not self.bare:
            return batch

        def mark(row: ScoredRow) -> ScoredRow:
            return replace(row, stripped=row.trajectory.id in self.bare)

        return replace(
            batch,
            rows=tuple(map(mark, batch.rows)),
            extra=tuple(tuple(map(mark, update)) for update in batch.extra),
        )


def views_of(
    config: Config,
    step: int,
    tasks: Sequence[Task],
    fresh: tuple[Trajectory, ...],
    drawn: Drawn,
) -> Views:
    """Take notes out of the rows that are to train without; everything else stays as it is.

    Whether this run guides anybody does not matter: what it replays may have been sampled by one
    that did.
    """
    if config.notes.train == "keep":
        return Views(fresh, drawn)
    strips = _strips(config, step, tasks)
    bare: set[str] = set()

    def view(row: Trajectory) -> Trajectory:
        if not strips(row):
            return row
        bare.add(row.id)
        return stripped(row)

    def drawn_view(pick: Pick) -> Pick:
        return replace(pick, trajectory=view(pick.trajectory))

    seen = tuple(view(row) for row in fresh)
    drawn = Drawn(
        tuple(map(drawn_view, drawn.grouped)),
        tuple(tuple(map(drawn_view, update)) for update in drawn.updates),
    )
    return Views(seen, drawn, frozenset(bare))


def _strips(config: Config, step: int, tasks: Sequence[Task]) -> Callable[[Trajectory], bool]:
    """Say of any row whether the step trains it without its notes.

    Rows of the step's tasks, fresh or stored, follow their task; stored rows of other tasks are
    decided one task at a time.
    """
    mode, share, seed = config.notes.train, config.notes.keep_share, config.run.seed
    planned = [task.key for task in tasks]
    kept = kept_tasks(planned, mode, share, seed, step)

    def strips(row: Trajectory) -> bool:
        if not has_notes(row):
            return False
        if row.task in planned:
            return row.task not in kept
        return not keeps_alone(row.task, mode, share, seed, step)

    return strips

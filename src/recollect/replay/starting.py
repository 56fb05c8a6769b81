"""When replay begins: by pool size, by solve rate, by progress. All that are set must hold."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.replay.quotas import whole_part


@dataclass(frozen=True, slots=True)
class Triggers:
    """What must hold before the first stored row is drawn; None means nothing is asked.

    `rows` is the size of the pool now; `success` a share of successes among the fresh rows of one
    step, at any time before (ExGRPO's trigger, 0.35); `progress` a share of the run's steps done
    (seed 000's reading of the same number).
    """

    rows: int = 1
    success: float | None = None
    progress: float | None = None


class Start:
    """Remembers that replay has begun: once it has, it goes on.

    `since` is the first step with replay, 0 before; `solved` whether the solve rate was reached.
    Both belong into a checkpoint.
    """

    def __init__(self, triggers: Triggers, since: int = 0, solved: bool = False) -> None:
        self._triggers = triggers
        self.since = since
        self.solved = solved or triggers.success is None

    def has_begun(self, step: int, steps: int, rows: int) -> bool:
        """Tell whether a step replays; `rows` are in the pool, `steps` the run has in all."""
        if not self.since:
            progress = (step - 1) / steps
            late_enough = self._triggers.progress is None or progress >= self._triggers.progress
            if self.solved and late_enough and rows >= self._triggers.rows:
                self.since = step
        return bool(self.since)

    def saw(self, successes: int, rows: int) -> None:
        """Take in the fresh rows of a step."""
        wanted = self._triggers.success
        if wanted is not None and rows and successes / rows >= wanted:
            self.solved = True


def quota(share: float, whole: int, since: int, step: int) -> int:
    """Count the items that a share of `whole` makes in this step; fractions add up over steps.

    Over k steps from `since` on exactly floor(k share whole) items are given out, so a share of
    less than one item a step is an item every few steps, never nothing.
    """
    done, now = step - since, step - since + 1
    return whole_part(now * share * whole) - whole_part(done * share * whole)

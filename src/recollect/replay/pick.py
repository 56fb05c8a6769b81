"""A stored row that a step trains on, and why."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.ledger import Draw
from recollect.trajectory import Trajectory
from recollect.types import GroupId, RunId


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """A stored row chosen for a step, with its slot in the step and the group it joins.

    `probability` is its exact chance of being chosen, `weight` its priority weight. `advantage`
    and `priority` are those it last had, None if it never had any.
    """

    slot: int
    trajectory: Trajectory
    group: GroupId
    mode: str
    age: int
    probability: float
    reason: str
    weight: float = 1.0
    advantage: float | None = None
    priority: float | None = None

    def draw(self, run: RunId, step: int) -> Draw:
        """Write the pick as a ledger entry."""
        return Draw(
            run=run,
            step=step,
            slot=self.slot,
            trajectory=self.trajectory.id,
            group=self.group,
            age=self.age,
            probability=self.probability,
            reason=f"{self.mode}: {self.reason}",
            weight=self.weight,
        )

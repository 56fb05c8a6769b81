"""The stored rows of a step."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from recollect.replay.pick import Pick


@dataclass(frozen=True, slots=True)
class Drawn:
    """Stored rows that join groups of the step, and those of its extra updates."""

    grouped: tuple[Pick, ...] = ()
    updates: tuple[tuple[Pick, ...], ...] = ()

    @property
    def every(self) -> tuple[Pick, ...]:
        """All of them, in the order of their slots."""
        extra = (pick for update in self.updates for pick in update)
        return (*self.grouped, *sorted(extra, key=lambda pick: pick.slot))

    def without(self, slots: Collection[int]) -> Drawn:
        """Leave picks out; updates that lose all of theirs go."""
        updates = [tuple(p for p in update if p.slot not in slots) for update in self.updates]
        return Drawn(
            tuple(pick for pick in self.grouped if pick.slot not in slots),
            tuple(update for update in updates if update),
        )

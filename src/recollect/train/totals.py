"""What a run counts from its first step on, whatever interrupts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from recollect.canonical import Json


@dataclass(slots=True)
class Totals:
    """What a run has counted since it began: all whole numbers, all in its checkpoints.

    Rows generated, episodes that failed, updates that were refused; the place in the schedule;
    rows trained (each once a step) and those of them that were replayed; rollouts that replayed
    rows stood in for; the first step with replay (0 = none yet) and whether its solve rate was
    reached.
    """

    rows: int = 0
    failed: int = 0
    skipped: int = 0
    position: int = 0
    trained: int = 0
    replayed: int = 0
    saved: int = 0
    replay_since: int = 0
    replay_solved: int = 0

    def state(self) -> dict[str, Json]:
        """Give what a checkpoint keeps."""
        return asdict(self)

    @classmethod
    def restore(cls, state: Mapping[str, Json]) -> Totals:
        """Take the counts of a checkpoint back."""
        return cls(**{field.name: int(str(state[field.name])) for field in fields(cls)})

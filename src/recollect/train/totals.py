"""What a run counts from its first step on, whatever interrupts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from recollect.canonical import Json


@dataclass(slots=True)
class Totals:
    """Rows generated, episodes that failed, updates that were refused: since the run began."""

    rows: int = 0
    failed: int = 0
    skipped: int = 0

    def state(self) -> dict[str, Json]:
        """Give what a checkpoint keeps."""
        return asdict(self)

    @classmethod
    def restore(cls, state: Mapping[str, Json]) -> Totals:
        """Take the counts of a checkpoint back."""
        return cls(**{name: int(str(state[name])) for name in ("rows", "failed", "skipped")})

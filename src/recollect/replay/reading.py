"""Reading stored rows of which some may be damaged or gone: the others are read all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from recollect.errors import CorruptRecord, UnknownId
from recollect.store.base import StoreReader
from recollect.trajectory import Trajectory
from recollect.types import TrajectoryId

GONE = "it was set aside or removed by somebody else"


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows that could be read, by id; the others, with the reason."""

    rows: dict[TrajectoryId, Trajectory] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)


def read_rows(store: StoreReader, ids: Sequence[TrajectoryId]) -> Reading:
    """Read what can be read of these rows; a store that is written quarantines damaged ones."""
    lost: dict[str, str] = {}
    return Reading(_trajectories(store, ids, lost), lost)


def names_of(store: StoreReader, seqs: Sequence[int]) -> dict[int, TrajectoryId]:
    """Name those of the rows, by `seq`, that were not removed for good since they were seen."""
    try:
        return dict(zip(seqs, store.ids_of(seqs), strict=True))
    except UnknownId:
        # The error names one of them, and a long list may miss many: halves find them soon.
        if len(seqs) == 1:
            return {}
        half = len(seqs) // 2
        return names_of(store, seqs[:half]) | names_of(store, seqs[half:])


def _trajectories(
    store: StoreReader, ids: Sequence[TrajectoryId], lost: dict[str, str]
) -> dict[TrajectoryId, Trajectory]:
    """Read what can be read, and enter into `lost` what cannot."""
    try:
        return dict(zip(ids, store.get(ids), strict=True))
    except CorruptRecord as error:
        lost |= dict.fromkeys(error.ids, error.problem)
        return _trajectories(store, [id_ for id_ in ids if id_ not in error.ids], lost)
    except UnknownId:
        if len(ids) == 1:
            lost[ids[0]] = GONE
            return {}
        half = len(ids) // 2
        return _trajectories(store, ids[:half], lost) | _trajectories(store, ids[half:], lost)

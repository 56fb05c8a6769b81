"""What the processes of a run say to each other: the leader's orders, and the helpers' answers."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.rollout.collector import Collected
from recollect.rollout.episode import Request
from recollect.train.ranks import Work
from recollect.train.report import StepFigures
from recollect.types import Sampling


@dataclass(frozen=True, slots=True)
class Open:
    """Load what the run in a folder trains, as it stands at a checkpoint or at its start."""

    folder: str
    checkpoint: str | None


@dataclass(frozen=True, slots=True)
class Ready:
    """It is loaded; `shapes` are those of the parameters that train, by name."""

    shapes: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Play:
    """Make some attempts. The leader's weights follow."""

    requests: tuple[Request, ...]
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Played:
    """The attempts, and the signal that the helper was sent, if any."""

    collected: Collected
    signal: int | None


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute a gradient. The leader's weights follow; the sum of gradients comes after."""

    work: Work


@dataclass(frozen=True, slots=True)
class Computed:
    """It is computed; the gradient itself is about to be added up."""

    figures: StepFigures
    signal: int | None


@dataclass(frozen=True, slots=True)
class Broken:
    """An order could not be carried out."""

    why: str


@dataclass(frozen=True, slots=True)
class End:
    """Nothing more is to be done."""

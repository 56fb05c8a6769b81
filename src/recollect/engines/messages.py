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
class Visit:
    """Load a model as it is, to play attempts with; `settings` is the file that tells how."""

    settings: str
    model: str


@dataclass(frozen=True, slots=True)
class Ready:
    """It is loaded; `shapes` are those of the parameters that the leader will send, by name."""

    shapes: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Play:
    """Make some attempts. The leader's weights follow; where they are cut, all gather them."""

    requests: tuple[Request, ...]
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Played:
    """The attempts, and the signal that the helper was sent, if any."""

    collected: Collected
    signal: int | None


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute a gradient. The leader's weights follow; the sum of gradients comes after.

    Where weights are cut, everybody has a slice of them, and sums go with the passes.
    """

    work: Work


@dataclass(frozen=True, slots=True)
class Computed:
    """It is computed; the gradient itself is about to be added up.

    Where weights are cut it is added up already, and `squares` is the sum of its squares in the
    helper's slices.
    """

    figures: StepFigures
    signal: int | None
    squares: float = 0.0


@dataclass(frozen=True, slots=True)
class Gather:
    """Help to gather all cut weights, which the leader reads."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Multiply the gradients of the slices by `scale`, and take an optimiser step with `rate`."""

    rate: float
    scale: float


@dataclass(frozen=True, slots=True)
class Lend:
    """Help to put weights and moments together, which the leader saves."""


@dataclass(frozen=True, slots=True)
class Broken:
    """An order could not be carried out."""

    why: str


@dataclass(frozen=True, slots=True)
class End:
    """Nothing more is to be done."""

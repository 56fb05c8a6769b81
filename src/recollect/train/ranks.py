"""The processes that work on one run together, as the loop sees them.

Rank 0 leads: it plans, decides, writes and owns the optimiser. The others help: they play attempts
and compute gradients with the leader's weights, and keep nothing; or, where weights are cut
(`train.sharding`), a slice of weights and moments each. So whatever is decided is decided once, and
a run may go on with another number of processes. `recollect.engines` has the real ones;
`Alone` is a run in one process, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from recollect.models.loading import Policy
    from recollect.rollout.collector import Generator
    from recollect.train.batch import ScoredRow
    from recollect.train.report import StepFigures
    from recollect.train.sharding import Shards

Parameters: TypeAlias = "Sequence[tuple[str, torch.nn.Parameter]]"  # by name


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Rows of one optimiser step whose gradient is wanted, or a share of them.

    `denominator` is that of the whole step, so that the gradients of shares add up to its own.
    `old` are log-probs that stand in for recorded ones, by trajectory id. `seed` is for what
    adapters drop, where somebody else than the leader computes; `distilled` names rows that are
    learnt as they are. `stored` tells whether any row of the whole step is a replayed one.
    """

    rows: Sequence[ScoredRow]
    old: Mapping[str, NDArray[np.float32]]
    denominator: float
    seed: int = 0
    distilled: frozenset[str] = frozenset()
    stored: bool = False


class Ranks(Protocol):
    """All processes of a run, seen by the one that leads.

    Promises: gradients and figures that were added up are those of one process on the same rows,
    up to the order of summation; no row is left out or counted twice. If a process is lost, every
    method raises RankLost within a bounded time.
    """

    @property
    def size(self) -> int:
        """How many processes there are, this one included."""

    def signal(self) -> int | None:
        """Name the signal that another process was sent, if any."""

    def open(self, folder: Path, checkpoint: Path | None) -> None:
        """Have the others load what a run trains, as it stands at a checkpoint or at its start."""

    def visit(self, settings: Path, model: str) -> None:
        """Have the others load a model as it is, to share attempts with no weights sent.

        `settings` is the file of the configuration that tells how they are played.
        """

    def shard(self, policy: Policy) -> Shards | None:
        """Cut a policy's weights among all processes; None where there is but one."""

    def share(self, collector: Generator, parameters: Parameters) -> Generator:
        """Give a collector that shares its attempts with the others, under our weights."""

    def hand_out(self, work: Work, parameters: Parameters) -> Work:
        """Give everyone a share of the work, with our weights; ours is what comes back.

        It is the beginning of the rows, so that figures by row number stay as they are.
        """

    def add_up(self, parameters: Parameters, figures: StepFigures) -> None:
        """Add the others' gradients and figures to ours."""

    def clip(self, parameters: Sequence[torch.nn.Parameter], most: float) -> float:
        """Scale the gradient down to a norm, over all of it wherever it is; gives what it was."""

    def apply(self, rate: float) -> None:
        """Have the others take the optimiser step that we are about to take, with their slices."""

    def whole(self) -> AbstractContextManager[None]:
        """Have all weights here inside, for passes that are ours alone."""

    def lend(self) -> None:
        """Have the others hand their slices over as we put weights, then moments, together."""


class Alone:
    """A run in one process."""

    size = 1

    def signal(self) -> int | None:
        """Nobody else can be interrupted."""
        return None

    def open(self, folder: Path, checkpoint: Path | None) -> None:
        """Nobody else loads anything."""

    def visit(self, settings: Path, model: str) -> None:
        """Nobody else plays."""

    def shard(self, policy: Policy) -> Shards | None:
        """They stay whole."""
        return None

    def share(self, collector: Generator, parameters: Parameters) -> Generator:
        """Nobody to share with."""
        return collector

    def hand_out(self, work: Work, parameters: Parameters) -> Work:
        """All of it is ours."""
        return work

    def add_up(self, parameters: Parameters, figures: StepFigures) -> None:
        """Ours are all there are."""

    def clip(self, parameters: Sequence[torch.nn.Parameter], most: float) -> float:
        """All of it is here."""
        from torch.nn.utils import clip_grad_norm_

        return float(clip_grad_norm_(parameters, most))

    def apply(self, rate: float) -> None:
        """Nobody else has anything to step."""

    def whole(self) -> AbstractContextManager[None]:
        """They are here."""
        return nullcontext()

    def lend(self) -> None:
        """Nobody else has anything to lend."""


ALONE = Alone()

"""Whoever turns scored batches into optimiser steps: in this process, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recollect.train.batch import Batch
    from recollect.train.report import UpdateReport
    from recollect.trajectory import Trajectory


class Updater(Protocol):
    """Applies scored batches to a policy. `version` counts the optimiser steps that were applied.

    Promises: a loss or gradient that is not finite changes nothing and is counted; a batch without
    signal changes nothing; what the report says of a row is what was applied.
    """

    version: int

    def update(
        self,
        batch: Batch,
        step: int,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> UpdateReport:
        """Train on a batch; `progress` is told how many minibatches are done, of how many."""

    def logprobs(self, trajectories: Sequence[Trajectory]) -> list[NDArray[np.float32]]:
        """Log-probs of each row's sampled tokens under the policy as it is now."""

    def penalties(self, trajectories: Sequence[Trajectory]) -> list[float]:
        """Cost of each row that is taken off its reward; 0 where there is none."""

    def save(self, folder: Path) -> None:
        """Write weights and optimiser state into a folder; OSError where the disk refuses."""

    def restore(self, folder: Path, version: int) -> None:
        """Take back what `save` wrote, as far as it was not loaded when the policy was."""

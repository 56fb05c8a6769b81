"""What is known of the rows of one optimiser step before the model sees them, as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.train.batch import ScoredRow
from recollect.train.packing import Pack
from recollect.train.scorer import PerToken, Recorded
from recollect.train.stripped import is_stripped


class Given:
    """Old log-probs, advantages, origins and priority weights of the rows, by row or by token.

    `distilled` names rows that learn to do without their notes.
    `credited` tells whether a critic has credited the tokens: then `values` and `returns` are
    theirs, and advantages are by token.
    """

    def __init__(
        self,
        rows: Sequence[ScoredRow],
        old: Mapping[str, NDArray[np.float32]],
        distilled: frozenset[str],
        device: torch.device,
    ) -> None:
        self.count = len(rows)
        trajectories = [row.trajectory for row in rows]
        self.recorded = Recorded(trajectories, device, old)
        # What drift is measured from is always the policy that sampled, where one is known.
        unknown = {str(t.id): old[t.id] for t in trajectories if t.logprobs is None}
        self.behaviour = Recorded(trajectories, device, unknown) if old else self.recorded
        self.stored = torch.tensor([row.pick is not None for row in rows], device=device)
        self.weights = torch.tensor(
            [1.0 if row.pick is None else row.pick.weight for row in rows], device=device
        )
        self.any_stored = any(row.pick is not None for row in rows)
        bare = [is_stripped(row) for row in rows]
        self.stripped = torch.tensor(bare, device=device)
        self.any_stripped = any(bare)
        self.distilled = torch.tensor(
            [row.trajectory.id in distilled for row in rows], device=device
        )
        self._advantages = torch.tensor([row.advantage for row in rows], device=device)
        credited = [row.credit for row in rows if row.credit is not None]
        self.credited = bool(credited) and len(credited) == len(rows)
        self._by_token = PerToken([c.advantages for c in credited], device)
        self._values = PerToken([c.values for c in credited], device)
        self._returns = PerToken([c.returns for c in credited], device)

    def advantages(self, each: Pack) -> torch.Tensor:
        """Advantages [n] of a pack's targets: their own, or their row's."""
        return self._by_token.at(each) if self.credited else self._advantages[each.rows]

    def values(self, each: Pack) -> torch.Tensor:
        """Values [n] of a pack's targets when they were credited."""
        return self._values.at(each)

    def returns(self, each: Pack) -> torch.Tensor:
        """Returns [n] of a pack's targets: what the critic should have said."""
        return self._returns.at(each)

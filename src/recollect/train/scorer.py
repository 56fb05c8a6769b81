"""Log-probs of recorded tokens: under the policy, under its reference, and as recorded."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.models.attention import packed
from recollect.models.loading import Policy
from recollect.train.packing import Pack
from recollect.trajectory import Trajectory


def log_distributions(model: Any, each: Pack, temperature: float) -> torch.Tensor:
    """Log-probs [n, V] of every token where a pack has a target, and nowhere else.

    Call it inside `packed(each.spans)`. They are those of softmax(logits / temperature), as the
    sampler records them; temperature 0 counts as 1, as it does there.
    """
    output = model(
        input_ids=each.ids,
        position_ids=each.positions,
        use_cache=False,
        logits_to_keep=each.keep,
    )
    logits: torch.Tensor = output.logits[0].float() / (temperature or 1.0)
    return torch.log_softmax(logits, dim=-1)


def of_targets(distributions: torch.Tensor, each: Pack) -> torch.Tensor:
    """Log-probs [n] of a pack's targets."""
    return distributions.gather(1, each.targets[:, None])[:, 0]


def entropies(distributions: torch.Tensor) -> torch.Tensor:
    """Entropy [n] of each distribution, in nats."""
    return -(distributions.exp() * distributions).sum(dim=-1)


@torch.no_grad()
def target_logprobs(model: Any, each: Pack, temperature: float) -> torch.Tensor:
    """Log-probs [n] of a pack's targets under a model, as constants and without dropout."""
    was_training = model.training
    model.eval()
    try:
        with packed(each.spans):
            return of_targets(log_distributions(model, each, temperature), each)
    finally:
        model.train(was_training)


class Recorded:
    """Old log-probs of some rows, found by row and place in the row, never by order.

    Those that were recorded when the row was sampled, or those in `instead`, by trajectory id.
    """

    def __init__(
        self,
        trajectories: Sequence[Trajectory],
        device: torch.device,
        instead: Mapping[str, NDArray[np.float32]] = MappingProxyType({}),
    ) -> None:
        found = [instead.get(t.id, t.logprobs) for t in trajectories]
        parts = [part for part in found if part is not None]
        if len(parts) != len(trajectories):
            raise ValueError("rows without recorded log-probs cannot be compared with the policy")
        lengths = [0, *(part.size for part in parts)]
        self._starts = torch.from_numpy(np.cumsum(lengths)).to(device)
        self._values = torch.from_numpy(np.concatenate(parts or [np.zeros(0, "<f4")])).to(device)

    def logprobs(self, each: Pack) -> torch.Tensor:
        """Recorded log-probs [n] of a pack's targets."""
        return self._values[self._starts[each.rows] + each.places]


class Reference:
    """The policy as it was when the run began: a frozen model, or the policy without its adapter.

    `start` is the model before its first update. None means that `policy` is that still: with new
    adapters it is its own reference without them, of any other model a copy is kept.
    """

    def __init__(self, policy: Policy, start: Policy | None = None) -> None:
        self._has_adapter = start is None and hasattr(policy.model, "disable_adapter")
        if self._has_adapter:
            self._model: Any = policy.model
            return
        self._model = copy.deepcopy(policy.model) if start is None else start.model
        self._model.requires_grad_(False)

    def logprobs(self, each: Pack, temperature: float) -> torch.Tensor:
        """Log-probs [n] of a pack's targets under the reference."""
        if not self._has_adapter:
            return target_logprobs(self._model, each, temperature)
        with self._model.disable_adapter():
            return target_logprobs(self._model, each, temperature)

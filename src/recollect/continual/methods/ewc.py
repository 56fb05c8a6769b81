"""ewc: elastic weight consolidation (Kirkpatrick et al. 2017, arXiv:1612.00796).

    loss + lambda / 2 sum_{k < i} sum_n F_k,n (theta_n - theta*_k,n)^2

with the Fisher information F_k and the weights theta*_k after each earlier domain k. The penalty is
inside the loss of every optimiser step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from recollect.continual.fisher import (
    Weights,
    load_weights,
    save_weights,
    trained_weights,
)
from recollect.continual.holding import Hold, Holder
from recollect.continual.journey import write_whole
from recollect.continual.methods.sequential import Sequential
from recollect.train.companion import Companion

FILE = "fisher.safetensors"


class Ewc(Sequential):
    """Holds every earlier domain by a penalty of its own."""

    def companion(self, number: int) -> Companion | None:
        """Add the penalty, from the second domain on."""
        if number == 0:
            return None
        return Holder(self.holds(number), self.config.continual.ewc.strength)

    def holds(self, number: int) -> list[Hold]:
        """What a stage is held by: one hold for each earlier domain."""
        return [self.hold(earlier) for earlier in range(number)]

    def hold(self, number: int) -> Hold:
        """Read what was kept after a stage."""
        found = load_weights(self.journey.state(number) / FILE, torch.device("cpu"))
        return Hold(found["fisher"], found["anchor"])

    def finish(self, number: int) -> None:
        """Measure the Fisher information, once, and keep it with the weights."""

        def write(folder: Path) -> None:
            policy = self.policy_after(number)
            new = self.measure(number, policy)
            parts = ("fisher", self.combined(number, new)), ("anchor", trained_weights(policy))
            save_weights(folder / FILE, *parts)

        write_whole(self.journey.state(number), write)

    def combined(self, number: int, new: Weights) -> Weights:
        """What is kept: the new domain's own."""
        return new

    def summary(self, number: int) -> Mapping[str, float]:
        """Say how large the kept Fisher information is, in all."""
        kept = self.hold(number).fisher
        return {"fisher_sum": float(sum(value.sum() for value in kept.values()))}

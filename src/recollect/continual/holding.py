"""The quadratic penalty that holds weights where earlier domains need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from recollect.continual.fisher import Weights
from recollect.continual.methods.sequential import Quiet
from recollect.train.session import Session


@dataclass(frozen=True, slots=True)
class Hold:
    """Weights theta* to return to, and how much each of them matters (Fisher information)."""

    fisher: Weights
    anchor: Weights

    def to(self, device: torch.device) -> Hold:
        """Move both to where they are compared with the weights."""
        return Hold(
            {name: value.to(device) for name, value in self.fisher.items()},
            {name: value.to(device) for name, value in self.anchor.items()},
        )


def quadratic_penalty(
    parameters: Sequence[tuple[str, torch.Tensor]], holds: Sequence[Hold], strength: float
) -> torch.Tensor:
    """Lambda / 2 sum_k sum_i F_k,i (theta_i - theta*_k,i)^2 over all holds k; one number."""
    total = torch.zeros((), device=parameters[0][1].device)
    for hold in holds:
        for name, parameter in parameters:
            distance = parameter.float() - hold.anchor[name].float()
            total = total + (hold.fisher[name] * distance**2).sum()
    return 0.5 * strength * total


class Holder(Quiet):
    """Adds the penalty to every optimiser step of a run."""

    def __init__(self, holds: Sequence[Hold], strength: float) -> None:
        self._holds = holds
        self._strength = strength
        self._last: float | None = None

    def join(self, session: Session) -> None:
        """Put the penalty into the loss."""
        if not self._holds:
            return
        policy = session.own.policy
        parameters = policy.trainable()
        holds = [hold.to(policy.device) for hold in self._holds]

        def penalty() -> torch.Tensor:
            term = quadratic_penalty(parameters, holds, self._strength)
            self._last = float(term.detach())
            return term

        session.own.penalty = penalty

    def metrics(self) -> Mapping[str, float]:
        """Tell the penalty of the step's last update; nothing where there was none.

        What an earlier step had is in no checkpoint: a run that goes on could not repeat it.
        """
        last, self._last = self._last, None
        return {} if last is None else {"continual/penalty": last}

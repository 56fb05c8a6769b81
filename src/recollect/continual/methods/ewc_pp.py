"""ewc_pp: EWC++ (Chaudhry et al. 2018, arXiv:1801.10112), Fisher information measured on the way.

    F <- decay F_step + (1 - decay) F        after every step, from the step's own fresh rows

so nothing has to be sampled again when a domain ends. The squared gradients are those of the policy
after the step's updates, and the rows were drawn from the policy before them: near it, not the
same. (With continual.imitate a step's rows are the gold ones; F is then that of what was imitated.)
The moving average goes on from domain to domain and is part of every checkpoint.
The penalty, from the second domain on, uses the F and theta* of the last domain's end.
"""

from __future__ import annotations

from pathlib import Path

from recollect.continual.fisher import Weights, fisher, load_weights, save_weights
from recollect.continual.holding import Hold, Holder
from recollect.continual.methods.online_ewc import OnlineEwc
from recollect.models.loading import Policy
from recollect.train.batch import Batch
from recollect.train.companion import Companion
from recollect.train.session import Session

_RUNNING = "running_fisher.safetensors"


class EwcPlusPlus(OnlineEwc):
    """Holds by a moving average."""

    def companion(self, number: int) -> Companion | None:
        """Measure in every stage, hold from the second on."""
        wanted = self.config.continual.ewc
        holds = self.holds(number) if number else []
        return _Running(holds, wanted.strength, wanted.decay, wanted.fisher_rows)

    def measure(self, number: int, policy: Policy) -> Weights:
        """Take the moving average as it was when the stage ended."""
        stage = self.journey.stage(number)
        return load_weights(self.journey.checkpoint(stage) / _RUNNING, policy.device)["fisher"]

    def combined(self, number: int, new: Weights) -> Weights:
        """The average already goes over all domains."""
        return new


class _Running(Holder):
    def __init__(self, holds: list[Hold], strength: float, decay: float, rows: int) -> None:
        super().__init__(holds, strength)
        self._decay = decay
        self._rows = rows
        # Goes on from the domain before.
        self._fisher: Weights = dict(holds[0].fisher) if holds else {}
        self._session: Session | None = None

    def join(self, session: Session) -> None:
        """Remember whose gradients are measured."""
        super().join(session)
        self._session = session

    def trained(self, step: int, batch: Batch) -> None:
        """Move the average by what the step's fresh rows say."""
        assert self._session is not None
        fresh = [row.trajectory for row in batch.rows if row.pick is None][: self._rows]
        if not fresh:
            return
        temperature = self._session.config.rollout.temperature
        new = fisher(self._session.own.policy, fresh, temperature)
        share = self._decay
        if self._fisher:
            before = {name: self._fisher[name].to(value.device) for name, value in new.items()}
            new = {n: share * value + (1 - share) * before[n] for n, value in new.items()}
        self._fisher = new

    def save(self, folder: Path) -> None:
        """Keep the average."""
        save_weights(folder / _RUNNING, ("fisher", self._fisher))

    def restore(self, folder: Path) -> None:
        """Take the average back."""
        assert self._session is not None
        device = self._session.own.policy.device
        self._fisher = load_weights(folder / _RUNNING, device).get("fisher", {})

"""sequential: one domain after the other, with nothing against forgetting.

The lower bound of every comparison, and the base of all other methods: each says only in what it
differs. theta_i = train(theta_{i-1}, domain i), theta_{-1} = the base model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recollect.config.schema.config import Config
from recollect.continual.fisher import Weights, fisher, sample_rows
from recollect.continual.journey import Journey
from recollect.continual.schedule import Stage
from recollect.envs.base import Environment
from recollect.models.loading import Policy
from recollect.train.batch import Batch
from recollect.train.checkpoint import load_checkpoint
from recollect.train.companion import Companion
from recollect.train.parts import policy_from
from recollect.train.session import Session


class Sequential:
    """What a method is asked by the runner, and the plainest answers."""

    def __init__(self, journey: Journey, environment: Environment) -> None:
        self.journey = journey
        self.environment = environment
        self.config = journey.config

    def begin(self, number: int) -> None:
        """Prepare what the training of a stage needs, once; done again after a kill."""

    def settings(self, number: int, config: Config) -> Config:
        """Change the settings of a stage; `config` already names its domain and starting model."""
        return config

    def starts_from(self, number: int) -> str:
        """Name the model that a stage begins with."""
        return self.config.model.name if number == 0 else self.model(number - 1)

    def companion(self, number: int) -> Companion | None:
        """Make what takes part in the training of a stage."""
        return None

    def finish(self, number: int) -> None:
        """Do what follows a stage's training, once, before its model is examined."""

    def model(self, number: int) -> str:
        """Name the model that stands for a finished stage: it is examined and gone on with."""
        return str(self.journey.checkpoint(self.journey.stage(number)))

    def summary(self, number: int) -> Mapping[str, float]:
        """Name figures of the method after a stage, for metrics.json."""
        return {}

    def splits(self) -> tuple[str, ...]:
        """Name the splits that it needs tasks of beside those for training and examinations."""
        return ()

    def previous(self, number: int) -> list[Stage]:
        """The stages before one."""
        return [self.journey.stage(earlier) for earlier in range(number)]

    def policy_after(self, number: int) -> Policy:
        """Load the policy that a stage's training ended with, ready for gradients."""
        stage = self.journey.stage(number)
        config = self.journey.run(stage).load()
        return policy_from(config, load_checkpoint(self.journey.checkpoint(stage)))

    def measure(self, number: int, policy: Policy) -> Weights:
        """Fisher information of a stage's policy on its own domain, from attempts of its own."""
        config = self.journey.run(self.journey.stage(number)).load()
        count = self.config.continual.ewc.fisher_rows
        rows = sample_rows(config, self.environment, policy, count)
        return fisher(policy, rows, config.rollout.temperature)


class Quiet:
    """A companion that does nothing: others change what they need."""

    def join(self, session: Session) -> None:
        """Enter a run."""

    def trained(self, step: int, batch: Batch) -> None:
        """Hear of a step."""

    def metrics(self) -> Mapping[str, float]:
        """Say nothing."""
        return {}

    def save(self, folder: Path) -> None:
        """Keep nothing."""

    def restore(self, folder: Path) -> None:
        """Need nothing."""

"""What samples and what learns in a run: the seam between the loop and the machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from recollect.rollout.collector import Generator
from recollect.train.updater import Updater

if TYPE_CHECKING:
    from recollect.config.schema.config import Config
    from recollect.envs.base import Environment
    from recollect.models.loading import Policy
    from recollect.train.checkpoint import Checkpoint
    from recollect.train.crediting import Crediting
    from recollect.train.folder import RunFolder
    from recollect.train.guards import Guard


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What an engine gives a run. `crediting` scores rows where there is a critic.

    `policy` is the model where it is in this process, None where it is elsewhere.
    """

    learner: Updater
    collector: Generator
    crediting: Crediting | None = None
    policy: Policy | None = None


class Engine(Protocol):
    """Opens the machines of a run. Everything else is the loop's, and the same on all of them."""

    def open(
        self,
        folder: RunFolder,
        config: Config,
        environment: Environment,
        guard: Guard,
        checkpoint: Checkpoint | None,
    ) -> Parts:
        """Load what the run trains, as it stands at a checkpoint or at its start.

        Optimiser state follows with `Updater.restore`.
        """

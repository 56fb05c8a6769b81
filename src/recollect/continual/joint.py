"""Training on all domains at once, the upper bound: on the tasks that their stages have."""

from __future__ import annotations

from recollect.continual.methods.sequential import Quiet
from recollect.train.schedule import Schedule, training_tasks
from recollect.train.session import Session
from recollect.types import Task


class Joint(Quiet):
    """Gives a run the first `environment.tasks` tasks of each of its domains.

    A run by itself has so many in all, and would know a part of what the stages are trained on.
    """

    def join(self, session: Session) -> None:
        """Put the tasks of every domain into the line."""
        config = session.config
        found: list[Task] = []
        for domain in config.environment.domains or ():
            alone = config.environment.model_copy(update={"domains": (domain,)})
            found += training_tasks(session.environment, alone)
        session.schedule = Schedule(found, config.run.seed, config.rollout.tasks_per_step)

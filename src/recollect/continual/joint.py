"""Training on all domains at once, the upper bound: on the tasks that their stages have."""

from __future__ import annotations

from recollect.continual.methods.sequential import Quiet
from recollect.train.schedule import Schedule, training_tasks
from recollect.train.session import Session
from recollect.types import Task


class Joint(Quiet):
    """Gives a run the tasks that each of its domains has alone, where it would have fewer.

    `environment.tasks`, like the most that are listed where nobody says, counts in a stage for its
    domain, in a run of several for all of them.
    """

    def join(self, session: Session) -> None:
        """Put the tasks of every domain into the line."""
        config = session.config
        found: list[Task] = []
        for domain in config.environment.domains or ():
            alone = config.environment.model_copy(update={"domains": (domain,)})
            found += training_tasks(session.environment, alone)
        if len(found) > len(session.schedule.by_key):
            per_step = config.rollout.tasks_per_step
            session.schedule = Schedule(found, config.run.seed, per_step)

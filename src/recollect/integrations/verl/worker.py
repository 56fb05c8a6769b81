"""verl's training worker, with a learning rate that the loop sets at each step."""

from __future__ import annotations

from verl.single_controller.base.decorator import Dispatch, register
from verl.workers.engine_workers import ActorRolloutRefWorker


class RatedWorker(ActorRolloutRefWorker):  # type: ignore[misc]  # verl is not there to be checked
    """Trains at the rate it was last given: our schedules count steps, verl's count calls."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # type: ignore[untyped-decorator]
    def set_learning_rate(self, rate: float) -> None:
        """Train at this rate until another one comes."""
        engine = self.actor.engine
        for group in engine.optimizer.param_groups:
            group["lr"] = rate
        # Its own schedule is constant, and writes its rate back after every update.
        engine.lr_scheduler.base_lrs = [rate] * len(engine.optimizer.param_groups)

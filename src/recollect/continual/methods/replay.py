"""replay: earlier domains come back while a new one is learnt.

As tasks (Rebuffi et al. 2017; Rolnick et al. 2019, with the current policy instead of stored
behaviour): a share `ratio` of a step's tasks are earlier ones, attempted anew in their own domain,
so the gradient is that of (1 - ratio) J_new + ratio J_old, on policy.
As trajectories: beside its fresh rows a step trains on stored rows of earlier domains, ratio of
their number, with the advantages they had and the policy ratio pi_now / pi_then (our pool's
`buffer`; correction as configured). This takes the place of the run's own replay: from the second
domain on `replay.modes` is [buffer] and only rows of earlier domains are drawn, by `strategy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recollect.config.schema.config import Config
from recollect.continual.methods.sequential import Quiet, Sequential
from recollect.continual.rehearsal import Rehearsal, Remembered, chosen
from recollect.replay.settings import pace
from recollect.store import open_reader
from recollect.train.companion import Companion
from recollect.train.session import Session
from recollect.types import Task

_STRATEGIES: dict[str, dict[str, Any]] = {
    "random": {"priority": "equal"},
    "high_reward": {"priority": "reward", "alpha": 1.0},
    "recent": {"priority": "equal"},
    "balanced": {"priority": "equal", "domains": "alike"},
}


class Replay(Sequential):
    """Rehearses a fixed share."""

    def ratio(self, number: int) -> float:
        """The share of a stage that is rehearsal."""
        return self.config.continual.replay.ratio

    def settings(self, number: int, config: Config) -> Config:
        """Where stored rows are to come back, begin the pool with them and replay nothing else."""
        ratio = self.ratio(number)
        if self.config.continual.replay.kind == "tasks" or number == 0 or not ratio:
            return config
        before = self.journey.run(self.journey.stage(number - 1))
        wanted = self.config.continual.replay
        rows = {"modes": ("buffer",), "buffer_updates": 1, "buffer_share": ratio}
        replay = config.replay.model_copy(update=rows)
        draw: dict[str, Any] = dict(_STRATEGIES[wanted.strategy])
        if wanted.strategy == "recent":
            # As old as a stage is long: ages are in optimiser updates, and a step makes several.
            each = pace(config.model_copy(update={"replay": replay}))
            draw["half_life"] = float(config.run.steps * (each.fresh + each.stored))
        return config.model_copy(
            update={
                "replay": replay,
                "draw": config.draw.model_copy(update=draw),
                "pool": config.pool.model_copy(
                    update={"start_from": str(before.path), "max_age": wanted.max_age}
                ),
            }
        )

    def companion(self, number: int) -> Companion | None:
        """Put earlier tasks into the line, or make their rows drawable."""
        ratio = self.ratio(number)
        if number == 0 or not ratio:
            return None
        return _Rehearser(self, number, ratio)

    def remembered(self, number: int) -> list[Task]:
        """List the tasks of earlier stages that are rehearsed, by what their stores know."""
        wanted = self.config.continual.replay
        found: list[Remembered] = []
        for stage in self.previous(number):
            folder = self.journey.run(stage)
            config = folder.load()
            with open_reader(folder.store(config)) as store:
                tasks = {task.key: task for task in store.tasks().values()}
                for state in store.task_states(folder.run(config)):
                    task = tasks[state.task]
                    if task.domain in stage.domains:
                        success = state.successes / max(1, state.rows)
                        found.append(Remembered(task, stage.number, state.step, success))
        # Of stored rows the draw prefers some; that none of the others' may come is not asked for.
        strategy = wanted.strategy if wanted.kind == "tasks" else "random"
        return chosen(found, strategy, wanted.capacity)

    def summary(self, number: int) -> Mapping[str, float]:
        """Say what share was rehearsed."""
        return {"replay_ratio": self.ratio(number) if number else 0.0}


class _Rehearser(Quiet):
    def __init__(self, method: Replay, number: int, ratio: float) -> None:
        self._method = method
        self._number = number
        self._ratio = ratio

    def join(self, session: Session) -> None:
        """Replace the line of tasks."""
        wanted = self._method.config.continual.replay
        as_tasks = wanted.kind == "tasks"
        session.schedule = Rehearsal(
            session.schedule,
            self._method.remembered(self._number),
            self._ratio if as_tasks else 0.0,
            session.config.run.seed,
            balanced=wanted.strategy == "balanced",
            draws=not as_tasks,
        )

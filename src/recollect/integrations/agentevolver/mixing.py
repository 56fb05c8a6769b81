"""Mixing: which tasks of a step are tasks with stored trajectories."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

from recollect.errors import InvalidRecord
from recollect.integrations.agentevolver.host import HostTask
from recollect.integrations.agentevolver.manager import ExperienceManager
from recollect.integrations.agentevolver.strategy import Strategy, check_strategy

T = TypeVar("T", bound=HostTask)


class ExperienceMixCollateFn(Generic[T]):
    """Splits a step's tasks into (experience_tasks, on_policy_tasks).

    `train_task_manager` has `seed_tasks`, or is itself a list of tasks; tasks seen in batches are
    remembered too, so that synthetic ones come back with their query. Promises:

    - both lists together are as long as the batch, and name each task at most as often as it did
      (of a task that is replayed only once: its rows are one group);
    - `exp_ratio` of the batch is replayed as long as the pool has tasks; what it lacks goes back
      to fresh tasks, and fractions of a task go to the next call;
    - experience tasks are copies with `metadata` of their own, so nothing is left in shared ones;
    - retired tasks give way first. Tasks that gave way are in `displaced` until the next call, and
      so are further copies of a task that is replayed.

    Replay starts once progress is at least `replay_start_ratio`, some step's fresh rows reached
    the share `start_success` of successes (ExGRPO's 0.35; None = not asked), and `start_tasks`
    tasks can be replayed.

    `offpolicy_trajectories_per_task` and `n_rollout` are the host's and are only checked here: one
    row of a task at least must be fresh. How many rows are replayed is up to who asks the manager.
    """

    def __init__(
        self,
        exp_manager: ExperienceManager,
        train_task_manager: Any,
        exp_ratio: float = 0.5,
        replay_start_ratio: float = 0.35,
        offpolicy_trajectories_per_task: int = 1,
        n_rollout: int = 8,
        *,
        start_success: float | None = None,
        start_tasks: int = 1,
        strategy: Strategy = "uniform",
    ) -> None:
        if not 0 <= exp_ratio <= 1:
            raise InvalidRecord("exp_ratio", f"{exp_ratio} is outside 0 to 1")
        if not 1 <= offpolicy_trajectories_per_task < n_rollout:
            problem = f"{offpolicy_trajectories_per_task} of {n_rollout} rows leaves no fresh one"
            raise InvalidRecord("offpolicy_trajectories_per_task", problem)
        check_strategy(strategy)
        self._manager = exp_manager
        self._ratio = exp_ratio
        self._start_ratio = replay_start_ratio
        self._start_success = start_success
        self._start_tasks = start_tasks
        self._strategy: Strategy = strategy
        self._tasks: dict[str, T] = {}
        self.displaced: list[T] = []
        self._remember(getattr(train_task_manager, "seed_tasks", train_task_manager))

    def __call__(
        self, training_tasks: Sequence[T], training_progress: float, enable_replay: bool = True
    ) -> tuple[list[T], list[T]]:
        """Split the tasks of a step; `training_progress` is the share of the run that is done."""
        self._remember(training_tasks)
        self.displaced = []
        if not enable_replay or not self._has_started(training_progress):
            return [], list(training_tasks)
        wanted = self._manager.take_quota(len(training_tasks) * self._ratio)
        uids = self._manager.sample_tasks_from_replaypool(
            num_tasks=wanted, strategy=self._strategy, among=self._tasks.keys()
        )
        experience = [_own_copy(self._tasks[uid]) for uid in uids]
        return experience, self._fresh(training_tasks, set(uids))

    def _has_started(self, progress: float) -> bool:
        manager = self._manager
        solved = self._start_success is None or manager.peak_success >= self._start_success
        if progress < self._start_ratio or not solved:
            return False
        return len(manager.get_valid_replay_task_ids()) >= self._start_tasks

    def _fresh(self, training_tasks: Sequence[T], replayed: set[str]) -> list[T]:
        """Keep as many tasks as have room, in their order: none that is replayed, resting last."""
        room = len(training_tasks) - len(replayed)
        others = [(n, t) for n, t in enumerate(training_tasks) if self._uid(t) not in replayed]
        # Sorting is stable: False (not resting) comes before True.
        willing = sorted(others, key=lambda each: self._manager.is_resting(each[1]))
        kept = {number for number, _ in willing[:room]}
        self.displaced = [task for number, task in others if number not in kept]
        seen = set[str]()
        for task in training_tasks:
            if (uid := self._uid(task)) in replayed:
                self.displaced += [task] if uid in seen else []
                seen.add(uid)
        return [task for number, task in others if number in kept]

    def _uid(self, task: T) -> str:
        return self._manager.uid(task)

    def _remember(self, tasks: Iterable[T]) -> None:
        for task in tasks:
            self._tasks.setdefault(self._uid(task), task)


def _own_copy(task: T) -> T:
    own: Any = copy.copy(task)
    own.metadata = dict(task.metadata)
    return cast("T", own)

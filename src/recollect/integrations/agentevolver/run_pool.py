"""A run's pool: what the manager's methods are made of, without the host's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.canonical import Json
from recollect.errors import InvalidRecord, RecollectError
from recollect.integrations.agentevolver.failures import GroupChanged, StepOutOfOrder
from recollect.integrations.agentevolver.host import Adapter
from recollect.integrations.agentevolver.intake import Intake, Saved
from recollect.integrations.agentevolver.names import TaskNames
from recollect.integrations.agentevolver.sample import (
    Sample,
    Step,
    from_host,
    from_store,
    to_record,
)
from recollect.integrations.agentevolver.settings import ExperienceSettings
from recollect.integrations.agentevolver.shelf import Shelf
from recollect.integrations.agentevolver.states import TaskStates
from recollect.integrations.agentevolver.strategy import Strategy, draw_tasks
from recollect.ledger import Cursor, Draw, Group, Mark, Run, Use
from recollect.randomness import stream
from recollect.replay.book import Result
from recollect.replay.eligibility import Now
from recollect.replay.pool import Pool
from recollect.replay.sampling import Drawn
from recollect.store.base import Store
from recollect.store.records import Batch
from recollect.trajectory import Trajectory
from recollect.types import Action, RunId, TaskKey, TrajectoryId, group_id


class RunPool:
    """Store, pool and task states of one run, brought forward step by step.

    Every method that writes has written durably when it returns, and leaves memory and store
    in agreement even where the store refuses.
    """

    def __init__(
        self, store: Store, run: RunId, settings: ExperienceSettings, adapter: Adapter
    ) -> None:
        self.settings = settings
        self.run = run
        self.store = store
        self._adapter = adapter
        if run not in {known.id for known in store.runs().values()}:
            config: dict[str, Json] = {
                "integration": "agentevolver",
                "environment": settings.environment,
            }
            store.commit(Batch(runs=[Run(run, settings.seed, config)]))
        self.names = TaskNames(settings.environment, settings.environment_version)
        self.shelf = Shelf(Pool(store), settings.rules)
        self._step: Step | None = None
        self._restore()

    # -- steps ------------------------------------------------------------------------------

    @property
    def now(self) -> Step:
        """The step that was begun."""
        if self._step is None:
            hint = "Call begin_step(global_steps) at the top of every step."
            raise StepOutOfOrder("No step was begun", hint)
        return self._step

    def begin(self, step: int, version: int) -> None:
        """Begin a step; beginning the same one again only looks at the store again."""
        newest = max(self.states.newest, self._step.number if self._step else 0)
        if step < newest:
            raise StepOutOfOrder(
                f"Step {step} of run {self.run} cannot begin: step {newest} is known already",
                f"To resume there, call load_experience_pool_from_disk({max(step - 1, 0)}) first.",
            )
        if self._step is None or step != self._step.number:
            self._forget_step()
        self._step = Step(self.run, step, version)
        self._refresh()

    def write_cursor(self) -> None:
        """Write down that the run can be resumed from the end of this step."""
        data: dict[str, Json] = {"carry": self.carry, "peak_success": self.peak_success}
        cursor = Cursor(self.run, self.now.number, self.now.policy_version, data)
        self.store.commit(Batch(cursors=[cursor]))

    def go_back(self, step: int) -> None:
        """Set aside everything after a step."""
        self.store.fence(self.run, step, f"resumed after step {step}")
        self._step = None
        self._restore()

    def _restore(self) -> None:
        """Know what the store knows, and what the newest cursor that is left holds beside it."""
        cursor = self.store.cursor(self.run)
        data = cursor.data if cursor is not None else {}
        self.carry = _number(data.get("carry"))
        self.peak_success = _number(data.get("peak_success"))
        self._forget_step()
        self.reload()

    def reload(self) -> None:
        """Know what the store knows, and nothing else."""
        known = self.store.task_states(self.run)
        self.states = TaskStates(self.run, self.settings.retirement, known)
        self._refresh()

    def _forget_step(self) -> None:
        self._counted: dict[TaskKey, frozenset[TrajectoryId]] = {}
        self._chances: dict[TaskKey, float] = {}
        self.drawn: dict[int, TrajectoryId] = {}
        self._calls, self._slots = count(), count()

    def _refresh(self) -> None:
        step, version = (self._step.number, self._step.policy_version) if self._step else (0, 0)
        self.shelf.refresh(self.states.book, Now(self.run, step, version))
        self.names.learn(self.shelf.pool.tasks.values())

    def _commit(self, batch: Batch) -> None:
        try:
            self.store.commit(batch)
        except RecollectError:
            self.reload()
            raise
        self._refresh()

    # -- rows in ----------------------------------------------------------------------------

    def samples(self, rows: Iterable[Any]) -> list[Sample]:
        """Read rows of the host (samples pass as they are); no id may come twice."""
        found: dict[TrajectoryId, Sample] = {}
        for given in rows:
            sample = given if isinstance(given, Sample) else self._read(given)
            if sample.id in found:
                problem = f"names an attempt at {sample.uid} twice; see data_id and rollout_id"
                raise InvalidRecord("rollout_id", problem, sample.id)
            found[sample.id] = sample
        self.names.learn(sample.task for sample in found.values())
        return list(found.values())

    def count(self, samples: Iterable[Sample]) -> None:
        """Count fresh groups once a step; rows of a counted group may come again, or not."""
        groups: dict[TaskKey, dict[TrajectoryId, bool]] = {}
        for sample in samples:
            if not sample.is_experience_replay:
                groups.setdefault(sample.task.key, {})[sample.id] = sample.success
        for key in [key for key in groups if key in self._counted]:
            if not groups.pop(key).keys() <= self._counted[key]:
                raise GroupChanged(self.names.uid(key), self.now.number)
        if not groups:
            return
        found = self.states.count(self.now.number, groups)
        gone = {
            id_: "its task retired"
            for key in found.retired
            for id_ in self.shelf.pool.ids(self._unpinned(self.shelf.rows(key)))
        }
        tasks = [self.names.known(key) for key in groups if not self.shelf.knows(key)]
        written = [self._group(key) for key in groups]
        marks = self._evictions(gone)
        self._commit(Batch(tasks=tasks, groups=written, task_states=found.states, marks=marks))
        self._counted |= {key: frozenset(rows) for key, rows in groups.items()}
        every = [success for rows in groups.values() for success in rows.values()]
        self.peak_success = max(self.peak_success, sum(every) / len(every))

    def keeps(self, sample: Sample) -> bool:
        """Tell whether rows of the sample's group are kept: between the bounds, not retired."""
        state = self.states.book.state(sample.task.key)
        if state is None or state.retired:
            return False
        return self.settings.keeping.keeps(Result(state.task, state.successes, state.rows))

    def save(self, samples: Iterable[Sample]) -> Saved:
        """Store fresh rows, as many of a task as have a place."""
        fresh = [sample for sample in samples if not sample.is_experience_replay]
        drops = self.settings.missing_log_probs == "drop"
        usable = [s for s in fresh if s.logprobs is not None or not drops]
        by_task: dict[TaskKey, list[Trajectory]] = {}
        for sample in usable:
            by_task.setdefault(sample.task.key, []).append(self._record(sample))
        intake = Intake()
        for key, rows in by_task.items():
            intake.take(self.shelf, key, rows, self.settings)
        tasks = [self.names.known(key) for key in by_task if not self.shelf.knows(key)]
        marks = self._evictions(intake.going)
        self._commit(Batch(tasks=tasks, trajectories=intake.coming, marks=marks))
        return Saved(
            saved=len(intake.coming),
            crowded_out=intake.crowded_out,
            repeated=intake.repeated,
            without_log_probs=len(fresh) - len(usable),
            evicted=len(intake.going),
        )

    # -- rows out ---------------------------------------------------------------------------

    def valid(self) -> list[TaskKey]:
        """Tasks with a bucket and a usable row, in an order that does not depend on arrival."""
        rate = self.states.book.rate
        return sorted(k for k in self.shelf.tasks() if k in self.names and rate(k) is not None)

    def draw_tasks(self, keys: Sequence[TaskKey], wanted: int, strategy: Strategy) -> list[TaskKey]:
        """Draw different tasks; their probabilities are remembered for this step's draws."""
        rates = np.array([self.states.book.rate(key) for key in keys], dtype=np.float64)
        drawn = draw_tasks(rates, wanted, strategy, self._stream("tasks"))
        chosen = [keys[place] for place in drawn.positions]
        self._chances.update(zip(chosen, drawn.probabilities.tolist(), strict=True))
        return chosen

    def candidates(self, key: TaskKey) -> list[Sample]:
        """All rows of a task that may be replayed now, oldest first."""
        return list(self._replayed(key, self.shelf.usable(key)).values())

    def choose(
        self, key: TaskKey, wanted: int, entropies: Mapping[str, float | None] | None = None
    ) -> tuple[list[Sample], list[Draw]]:
        """Choose rows of a task, the best first, by recorded entropies or the given ones.

        Rows that this step has drawn already are not drawn again.
        """
        rows, taken = self.shelf.usable(key), set(self.drawn.values())
        if taken:
            rows = rows[[id_ not in taken for id_ in self.shelf.pool.ids(rows)]]
        mode, values = self.settings.exp_select_mode, None
        if entropies is not None:
            known = [entropies.get(id_) for id_ in self.shelf.pool.ids(rows)]
            values = np.array([np.nan if e is None else e for e in known], dtype=np.float64)
        drawn = self.shelf.choose(rows, wanted, mode, self._stream("rows"), values)
        why = f"mix: {mode} of {rows.size}{'' if entropies is None else ', scored now'}"
        samples = self._replayed(key, drawn.positions)
        return list(samples.values()), self._draws(key, drawn, samples, why)

    def write_draws(self, draws: Sequence[Draw]) -> None:
        """Write draws into the ledger, all in one transaction."""
        if draws:
            self._commit(Batch(draws=draws))
            self.drawn |= {draw.slot: draw.trajectory for draw in draws}

    def write_uses(self) -> int:
        """Write that this step's draws were applied."""
        step = self.now.number
        uses = [Use(self.run, step, slot, row) for slot, row in self.drawn.items()]
        if uses:
            self._commit(Batch(uses=uses))
        return len(uses)

    # -- parts ------------------------------------------------------------------------------

    def _read(self, given: Any) -> Sample:
        row = self._adapter(given)
        task = self.names.task(row.task_id, row.query)
        return from_host(row, task, self.now, self.settings.success_threshold)

    def _record(self, sample: Sample) -> Trajectory:
        return to_record(
            sample,
            self.run,
            sampling=self.settings.sampling,
            tokenizer=self.settings.tokenizer,
            environment_version=self.settings.environment_version,
            reward_version=self.settings.reward_version,
        )

    def _replayed(self, key: TaskKey, rows: NDArray[np.int64]) -> dict[int, Sample]:
        """Read rows of a task, by position; those that are damaged or gone are left out."""
        if not rows.size:
            return {}
        group, task = group_id(self.run, self.now.number, key), self.names.known(key)
        stored = self.shelf.read(rows)
        return {place: from_store(row, task, group) for place, row in stored.items()}

    def _draws(
        self, key: TaskKey, drawn: Drawn, samples: Mapping[int, Sample], why: str
    ) -> list[Draw]:
        ages = self.shelf.pool.ages(self.now.policy_version, self.run)[drawn.positions]
        chance, places = self._chances.get(key, 1.0), drawn.positions.tolist()
        return [
            Draw(
                run=self.run,
                step=self.now.number,
                slot=next(self._slots),
                trajectory=samples[place].id,
                group=samples[place].group,
                age=max(int(age), 0),
                probability=chance * float(probability),
                reason=why,
            )
            for place, age, probability in zip(places, ages, drawn.probabilities, strict=True)
            if place in samples
        ]

    def _group(self, key: TaskKey) -> Group:
        now = self.now
        id_ = group_id(self.run, now.number, key)
        return Group(id_, self.run, now.number, key, now.policy_version)

    def _evictions(self, gone: Mapping[TrajectoryId, str]) -> list[Mark]:
        step = self.now.number
        return [Mark(id_, Action.EVICT, why, self.run, step) for id_, why in gone.items()]

    def _unpinned(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows[~self.shelf.pool.pinned[rows]]

    def _stream(self, purpose: str) -> np.random.Generator:
        name = f"agentevolver-{purpose}"
        return stream(self.settings.seed, name, self.now.number, next(self._calls))


def _number(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else 0.0

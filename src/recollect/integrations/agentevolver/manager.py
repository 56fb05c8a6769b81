"""The experience manager: seed 000's methods on a Recollect store and its pool."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from recollect.errors import InvalidRecord
from recollect.integrations.agentevolver.failures import RowMismatch
from recollect.integrations.agentevolver.host import Adapter, HostTask, read_row
from recollect.integrations.agentevolver.intake import Saved
from recollect.integrations.agentevolver.measured import Measured
from recollect.integrations.agentevolver.run_pool import RunPool
from recollect.integrations.agentevolver.sample import Sample
from recollect.integrations.agentevolver.settings import ExperienceSettings
from recollect.integrations.agentevolver.shelf import StoredTrajectories
from recollect.integrations.agentevolver.strategy import Strategy
from recollect.ledger import Draw
from recollect.store.address import Place
from recollect.store.base import Store
from recollect.trajectory import Trajectory
from recollect.types import RunId, TaskKey

AnyTask: TypeAlias = "str | HostTask"  # a uid, or the host's task itself


class ExperienceManager:
    """Which trajectories are kept and replayed, for one run of a host.

    Call `begin_step` at the top of every step; the rest keeps the host's names and order. Rows
    may be the host's own objects (read by `adapter`) or samples. Promises:

    - what a method stores is durable when it returns; a step redone gets the same ids;
    - rows are known by their ids. Their order, and rows missing or repeated, change nothing;
    - replayed rows never count towards a task's success, and retired tasks are not replayed;
    - all chance comes from (settings.seed, step, which call of the step it is).
    """

    def __init__(
        self, store: Store, run: str, settings: ExperienceSettings, adapter: Adapter = read_row
    ) -> None:
        self.settings = settings
        self._pool = RunPool(store, RunId(run), settings, adapter)

    # -- steps ------------------------------------------------------------------------------

    def begin_step(self, step: int, policy_version: int | None = None) -> None:
        """Begin a step of the host (`global_steps`); the policy version is the step unless given.

        Refuses to go back behind what is stored of this run: for that there is
        `load_experience_pool_from_disk`.
        """
        self._pool.begin(step, step if policy_version is None else policy_version)

    def save_experience_pool_to_disk(self) -> Place:
        """Write down that this step can be resumed from, and say where the store is.

        Rows, states and draws are on disk already. Call it where the host saves a checkpoint.
        """
        self._pool.write_cursor()
        return self._pool.store.path

    def load_experience_pool_from_disk(self, step: int) -> None:
        """Go back to the end of a step: later ones are set aside, as if they never happened.

        `step` is that of the model's checkpoint, so that pool and weights belong together.
        """
        self._pool.go_back(step)

    # -- what the host reads ----------------------------------------------------------------

    @property
    def difficulty2task_dict(self) -> dict[int, list[str]]:
        """Successes in its last fresh group -> uids; retired tasks are in no bucket. A copy."""
        uid, buckets = self._pool.names.uid, self._pool.states.buckets
        return {successes: [uid(key) for key in keys] for successes, keys in buckets.items()}

    @property
    def skip_uid_set(self) -> frozenset[str]:
        """Uids of retired tasks."""
        return frozenset(self._pool.names.uid(key) for key in self._pool.states.retired)

    @property
    def task2trajectories(self) -> Mapping[str, tuple[Trajectory, ...]]:
        """Uid -> stored successes, oldest first, read from the store when asked for."""
        names, shelf = self._pool.names, self._pool.shelf
        return StoredTrajectories(shelf, {names.uid(k): k for k in names if shelf.rows(k).size})

    @property
    def peak_success(self) -> float:
        """Largest share of successes among the fresh rows of a step so far."""
        return self._pool.peak_success

    def uid(self, task: HostTask) -> str:
        """Name a task of the host, as all methods and views here do."""
        return self._pool.names.uid(self._key(task))

    def is_resting(self, task: AnyTask) -> bool:
        """Tell whether a task is retired and not yet due for its re-test."""
        state = self._pool.states.book.state(self._key(task))
        if state is None or not state.retired:
            return False
        return (state.retest_step or state.step) > self._pool.now.number

    def get_valid_replay_task_ids(self) -> list[str]:
        """Uids that are in a bucket, not retired, and have a row that may be replayed now."""
        return [self._pool.names.uid(key) for key in self._pool.valid()]

    def metrics(self) -> dict[str, float]:
        """Count what there is, under the host's names."""
        pool = self._pool
        rows = sum(pool.shelf.usable(key).size for key in pool.shelf.tasks())
        return {
            "exp_replay/skip_uid_set_size": len(self.skip_uid_set),
            "exp_replay/total_tasks_in_pool": len(pool.valid()),
            "exp_replay/total_trajectories_in_pool": rows,
            "exp_replay/num_offpolicy_trajectories": len(pool.drawn),
        }

    # -- after the rollout ------------------------------------------------------------------

    def samples(self, trajectories: Iterable[Any]) -> list[Sample]:
        """Read the host's rows, giving each its id; no attempt may come twice."""
        return self._pool.samples(trajectories)

    def update_difficulty2task_dict(self, trajectories: Iterable[Any]) -> None:
        """Count each task's fresh rows: new bucket, and retirement or return, in one go.

        Give all fresh rows of the step. A task that just retired loses its stored rows.
        """
        self._pool.count(self.samples(trajectories))

    def update_skip_uid_set_and_filter_trajectories(
        self,
        trajectories: Iterable[Any],
        n_rollout: int | None = None,
        entropys: Any = None,
        response_mask: Any = None,
        *,
        old_log_probs: Any = None,
        row_ids: Sequence[str] | None = None,
        responses: Any = None,
    ) -> list[Sample]:
        """Return the rows to save: successes of groups between the bounds, with their values.

        Columns [rows, width] over response tokens are joined by `row_ids`, those of the batch as
        it is now. Values recorded while sampling stay; entropy is that of sampled tokens only.
        Tasks not counted in this step are counted now. `n_rollout` is not needed: a group has
        the rows it has.
        """
        samples = self.samples(trajectories)
        columns = {
            "old_log_probs": old_log_probs,
            "entropys": entropys,
            "response_mask": response_mask,
            "responses": responses,
        }
        if row_ids is not None:
            measured = Measured(row_ids, **columns)
            samples = [measured.fill(sample) for sample in samples]
        elif any(column is not None for column in columns.values()):
            hint = "Pass row_ids=batch.non_tensor_batch['row_ids'], in the batch's present order."
            raise RowMismatch("(all)", "columns were given without `row_ids`", hint)
        self._pool.count(samples)
        fresh = (sample for sample in samples if not sample.is_experience_replay)
        return [sample for sample in fresh if sample.success and self._pool.keeps(sample)]

    def save_trajectories_to_memory(self, trajectories: Iterable[Any]) -> Saved:
        """Store rows durably, at most `max_trajectories_per_task` of a task.

        Rows without behaviour log-probs are dropped and counted, or kept as demos; never stored
        with made-up ones.
        """
        return self._pool.save(self.samples(trajectories))

    # -- replay -----------------------------------------------------------------------------

    def sample_tasks_from_replaypool(
        self,
        difficulty: int | None = None,
        num_tasks: int = 2,
        strategy: Strategy = "random",
        among: Collection[str] | None = None,
    ) -> list[str]:
        """Draw up to `num_tasks` different tasks that can be replayed; [] where there is none.

        `difficulty` takes one bucket, `among` only these uids. Strategies: `random` gives each
        bucket the same share, `uniform` each task; `gaussian`, `linear`, `sqrt` weigh buckets by
        success rate as `recollect.replay.buckets` does.
        """
        keys, uid = self._pool.valid(), self._pool.names.uid
        if difficulty is not None:
            bucket = set(self._pool.states.bucket(difficulty))
            keys = [key for key in keys if key in bucket]
        if among is not None:
            keys = [key for key in keys if uid(key) in among]
        return [uid(key) for key in self._pool.draw_tasks(keys, num_tasks, strategy)]

    def get_offpolicy_trajectories_from_memory(
        self, task_id: AnyTask, num_trajectories: int = 1, use_saved_entropy: bool = True
    ) -> list[Sample]:
        """Return up to `num_trajectories` different stored rows of a task, the best first.

        With `use_saved_entropy` off: all of them, oldest first, for the caller to rank. A look
        at the pool; rows that will train are taken with `get_offpolicy_batch`.
        """
        key = self._key(task_id)
        if not use_saved_entropy:
            return self._pool.candidates(key)
        return self._pool.choose(key, num_trajectories)[0]

    def get_all_candidate_trajectories(self, task_id: AnyTask) -> list[Sample]:
        """Return every stored row of a task that may be replayed now, oldest first."""
        return self._pool.candidates(self._key(task_id))

    def get_all_candidates_batch(self, tasks: Iterable[HostTask]) -> dict[str, list[Sample]]:
        """Return every candidate of each task, by uid."""
        return {self.uid(task): self.get_all_candidate_trajectories(task) for task in tasks}

    def get_offpolicy_batch(
        self,
        tasks: Sequence[HostTask],
        num_trajectories_per_task: int = 1,
        use_saved_entropy: bool = True,
    ) -> list[Sample]:
        """Choose the rows that join each task's group, and write the draws into the ledger.

        Sets `task.metadata["n_offpolicy_trajectories"]` to the number found; that many fewer
        fresh rows are to be rolled out. With `use_saved_entropy` off, all candidates come back,
        and nothing is drawn or set: `select_offpolicy_by_entropy` then makes the choice.
        """
        if use_saved_entropy:
            return self._take(tasks, num_trajectories_per_task, None)
        candidates = self.get_all_candidates_batch(tasks)
        return [sample for samples in candidates.values() for sample in samples]

    def select_offpolicy_by_entropy(
        self,
        tasks: Sequence[HostTask],
        entropies: Mapping[str, float | None],
        num_trajectories_per_task: int = 1,
    ) -> list[Sample]:
        """Do what `get_offpolicy_batch` does, by entropies of the current policy, by row id.

        A candidate without one comes last. Score the candidates of all tasks in one pass.
        """
        return self._take(tasks, num_trajectories_per_task, entropies)

    def record_uses(self) -> int:
        """Write down that the optimiser applied this step's draws; `max_uses` counts these."""
        return self._pool.write_uses()

    def take_quota(self, share: float) -> int:
        """Turn a share of a batch into a number of tasks; the fraction goes to the next call."""
        owed = self._pool.carry + share
        whole = int(owed + 1e-9)  # 3 * 0.1 * 10 is a little less than 3
        self._pool.carry = max(owed - whole, 0.0)
        return whole

    def _take(
        self, tasks: Sequence[HostTask], wanted: int, entropies: Mapping[str, float | None] | None
    ) -> list[Sample]:
        keys = [self._key(task) for task in tasks]
        if len(set(keys)) < len(keys):
            raise InvalidRecord("tasks", "name a task twice; its rows would share one group")
        found: list[Sample] = []
        draws: list[Draw] = []
        for task, key in zip(tasks, keys, strict=True):
            samples, drawn = self._pool.choose(key, wanted, entropies)
            task.metadata["n_offpolicy_trajectories"] = len(samples)
            found += samples
            draws += drawn
        self._pool.write_draws(draws)
        return found

    def _key(self, task: AnyTask) -> TaskKey:
        """Find the task that a uid or a host's task means."""
        names = self._pool.names
        if isinstance(task, str):
            return names.key(task)
        ours = names.task(task.task_id, task.query)
        names.learn([ours])
        return ours.key

"""verl's trainer with our loop in it: its workers and servers, our decisions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray
import transfer_queue as tq
from numpy.typing import NDArray
from omegaconf import OmegaConf, open_dict
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu

from recollect.errors import ClusterLost
from recollect.integrations.verl.agent_loop import ORDER
from recollect.integrations.verl.asking import Order, Played
from recollect.integrations.verl.learner import Applied
from recollect.integrations.verl.loss import OWN_METRICS, run_config
from recollect.integrations.verl.sampler import PLAYED, PoolSampler
from recollect.integrations.verl.training_row import TrainingRow
from recollect.integrations.verl.worker import RatedWorker

_SHARDS = "model_world_size_*"  # the weights in a checkpoint, one file for each worker
_PING_SECONDS = 60.0
_LEAST_PATIENCE = 600.0  # seconds without any attempt ending before players count as lost


class RecollectTrainer(PPOTrainerSync):  # type: ignore[misc]  # verl is not there to be checked
    """Opens the machines, and offers them to the loop as `Workers` and `Players`.

    verl's own loop (`fit`) and its data are not used. Rollout servers sleep while workers compute
    and wake up, with the newest weights, when somebody plays.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.open(config, self.replay_buffer)

    def open(self, config: Any, rows: PoolSampler) -> None:
        """Take the sampler that verl has made."""
        self.config = config
        self._rows = rows
        self._uids = itertools.count()
        self._awake: int | None = None  # the version of the weights that servers sample from

    # -- what verl prepares ----------------------------------------------------------------

    def _init_dataloader(self) -> None:
        """There is no dataset: the loop knows the tasks."""
        self.total_training_steps = self.config.trainer.total_training_steps
        OmegaConf.set_struct(self.config, True)
        with open_dict(self.config):
            self.config.actor_rollout_ref.actor.optim.total_training_steps = (
                self.total_training_steps
            )

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        for role in self.role_worker_mapping:
            self.role_worker_mapping[role] = ray.remote(RatedWorker)

    def on_init_end(self) -> None:
        """Servers get weights when somebody plays."""

    # -- players ---------------------------------------------------------------------------

    def play(
        self, orders: Sequence[Order], progress: Callable[[int, int], None]
    ) -> Sequence[Played]:
        """Have orders played by the agent loop workers."""
        self._wake(orders[0].weights)
        uids = [f"a{next(self._uids)}" for _ in orders]
        batch = tu.get_tensordict(
            {
                "uid": uids,
                ORDER: [order.text() for order in orders],
                "index": list(range(len(orders))),
            },
            {"global_steps": orders[0].weights},
        )
        tags = [{"is_prompt": True, "status": "pending", "global_steps": 0} for _ in uids]
        tq.kv_batch_put(keys=uids, partition_id=PLAYED, tags=tags)
        self.agent_loop_manager.generate_sequences(batch)
        patience = max(_LEAST_PATIENCE, 2 * run_config().rollout.episode_seconds)
        return self._rows.gather(uids, patience, self._check_players, progress)

    def _wake(self, version: int) -> None:
        if self._awake != version:
            self.checkpoint_manager.update_weights(version)
            self._awake = version

    def _sleep(self) -> None:
        if self._awake is not None:
            self.checkpoint_manager.sleep_replicas()
            self._awake = None

    def _check_players(self) -> None:
        """Raise ClusterLost where an agent loop worker is gone."""
        asked = [w.__ray_ready__.remote() for w in self.agent_loop_manager.agent_loop_workers]
        try:
            ray.get(asked, timeout=_PING_SECONDS)
        except ray.exceptions.RayError as error:
            raise ClusterLost(f"an agent loop worker is gone: {_line(error)}") from error

    # -- workers ---------------------------------------------------------------------------

    def logprobs(self, rows: Sequence[TrainingRow]) -> list[NDArray[np.float32]]:
        """Log-probs of the tokens of each row's response under the policy as it is now."""
        self._sleep()
        batch = self._publish(rows)
        batch.extra_info.update(
            calculate_entropy=False, compute_loss=False, temperature=self._temperature
        )
        try:
            self.actor_rollout_wg.compute_log_prob(batch)
            return self._rows.logprobs(batch)[: len(rows)]
        finally:
            self._rows.withdraw(batch)

    def train(self, rows: Sequence[TrainingRow], rate: float) -> Applied:
        """Make one optimiser step at a learning rate."""
        self._sleep()
        self._publish(rows)
        batch, _ = self._rows.sample(0, PLAYED, len(rows))
        batch.extra_info.update(
            calculate_entropy=False,
            distillation_use_topk=False,
            distillation_only=False,
            global_batch_size=len(rows),  # of those that have a say
            mini_batch_size=len(batch),
            epochs=1,
            seed=0,
            dataloader_kwargs={"shuffle": False},
            temperature=self._temperature,
        )
        try:
            self.actor_rollout_wg.set_learning_rate(rate)
            metrics = self.actor_rollout_wg.update_actor(batch)["metrics"]
        finally:
            self._rows.withdraw(batch)
        said = {name: _number(metrics[name]) for name in metrics if name.startswith(OWN_METRICS)}
        return Applied(_number(metrics["loss"]), _number(metrics["grad_norm"]), said)

    def save(self, folder: Path) -> None:
        """Write the shard of each worker and, beside them, the model as an ordinary folder.

        Every node must see the folder under the same path.
        """
        self.actor_rollout_wg.save_checkpoint(str(folder), None, 0, max_ckpt_to_keep=None)
        model = folder / "huggingface"
        for path in sorted(model.iterdir()):
            path.rename(folder / path.name)
        model.rmdir()

    def load(self, folder: Path) -> None:
        """Take shards back; as many workers as wrote them are needed."""
        count, workers = len(list(folder.glob(_SHARDS))), self.actor_rollout_wg.world_size
        if count != workers:
            raise ClusterLost(
                f"the checkpoint {folder} was written by {count} workers, and there are {workers}",
                f"A run goes on with as many workers as it had: start a cluster with {count}, "
                "then: recollect resume RUN",
            )
        self._sleep()
        self.actor_rollout_wg.load_checkpoint(str(folder))

    @property
    def _temperature(self) -> float:
        return float(self.config.actor_rollout_ref.rollout.temperature)

    def _publish(self, rows: Sequence[TrainingRow]) -> Any:
        workers = self.actor_rollout_wg.world_size
        return self._rows.publish(rows, workers, self.tokenizer.eos_token_id)


def _number(found: Any) -> float:
    """One number from what verl reports: a value, or a list with one for each update."""
    return float(np.mean(found))


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__

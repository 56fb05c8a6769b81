"""What we use of verl is there and has the shape we know. Quick; needs verl, but no cluster.

verl-env/bin/python -m pytest tests/integrations/verl/test_contract.py
"""

from __future__ import annotations

import inspect
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from recollect.config.loading import load_config
from recollect.errors import ClusterLost
from recollect.integrations.verl.cluster import Cluster
from recollect.integrations.verl.launch import compose
from recollect.integrations.verl.mapping import LOSS, Assignment, verl_settings

from .verl_processes import needs_verl

# verl and Ray warn, while they are imported, of what they use themselves and of what they miss.
pytestmark = [needs_verl, pytest.mark.filterwarnings("ignore")]


def names(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_versions_that_were_tried() -> None:
    assert version("verl") == "0.9.1"
    assert version("TransferQueue") == "0.1.11"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_setting_that_we_write_exists(device: str) -> None:
    config = load_config(None, ["model.name=tiny", f"model.device={device}"]).config
    cluster = Cluster(2, 4, cpu=device == "cpu")
    settings = verl_settings(config, cluster, Path("/runs/one"))
    made = compose(settings, {"RECOLLECT_RUN": "/runs/one"})
    assert made.actor_rollout_ref.actor.policy_loss.loss_mode == LOSS
    assert made.trainer.nnodes == 2
    assert made.ray_kwargs.ray_init.runtime_env.env_vars.RECOLLECT_RUN == "/runs/one"
    with pytest.raises(ClusterLost, match=r"no setting trainer\.nonsense"):
        compose((*settings, Assignment("trainer.nonsense", 1, "test")), {})


def test_the_sampler_fits_the_trainer() -> None:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    from recollect.integrations.verl.sampler import PoolSampler

    given = ["trainer_mode", "trainer_config", "max_off_policy_threshold"]
    given += ["max_off_policy_strategy", "sampler_kwargs"]
    assert names(ReplayBuffer.__init__)[1:6] == given
    assert "refill_fn" in names(ReplayBuffer.__init__)
    assert names(PoolSampler.sample) == names(ReplayBuffer.sample)


def test_the_loss_fits_the_registry() -> None:
    from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla, get_policy_loss_fn

    import recollect.integrations.verl.plugin  # noqa: F401

    ours = get_policy_loss_fn(LOSS)
    called_with = {"old_log_prob", "log_prob", "advantages", "response_mask"}
    called_with |= {"loss_agg_mode", "config", "rollout_is_weights"}
    assert called_with <= set(names(compute_policy_loss_vanilla))
    assert called_with <= set(names(ours))


def test_the_trainer_has_the_hooks_that_we_fill() -> None:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    for hook in ("_init_dataloader", "_init_resource_pool_mgr", "on_init_end", "init"):
        assert callable(getattr(PPOTrainer, hook))
    source = inspect.getsource(PPOTrainer._build_replay_buffer)
    assert "custom_sampler" in source
    source = inspect.getsource(PPOTrainer._setup)
    for part in ("actor_rollout_wg", "checkpoint_manager", "role_worker_mapping"):
        assert part in source


def test_workers_say_what_we_ask_them() -> None:
    from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

    for method in ("compute_log_prob", "update_actor", "save_checkpoint", "load_checkpoint"):
        assert callable(getattr(ActorRolloutRefWorker, method))
    source = inspect.getsource(TrainingWorker.train_mini_batch)
    for key in ("mini_batch_size", "epochs", "seed", "dataloader_kwargs"):
        assert f'key="{key}"' in source


def test_an_agent_loop_answers_with_what_we_fill() -> None:
    from recollect.integrations.verl.agent_loop import _shell
    from recollect.integrations.verl.asking import Played
    from recollect.integrations.verl.sampler import ANSWER

    shell = _shell(Played(b"frame", 3)).as_dict()
    assert shell["extra_fields"][ANSWER]["frame"] == b"frame"
    assert Played(**shell["extra_fields"][ANSWER]) == Played(b"frame", 3)
    assert shell["rm_scores"].tolist() == [0.0]

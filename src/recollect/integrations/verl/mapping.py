"""From our configuration to verl's: which of its settings are set, to what, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recollect.canonical import Json
from recollect.config.schema.config import Config
from recollect.integrations.verl.cluster import Cluster
from recollect.integrations.verl.support import check
from recollect.models.catalog import folder_of

PLUGIN = "recollect.integrations.verl.plugin"
_CPU = "recollect.integrations.verl.cpu"
CPU_PLUGINS = (f"{_CPU}.device", f"{_CPU}.plugin")
CPU_SERVER = "recollect_cpu"
LOSS = "recollect"
AGENT = "recollect"
# Logical processors for Ray on one machine. With too few, verl waits for ever and says nothing.
_RAY_CPUS = 16
_STORE_BYTES = 500_000_000


@dataclass(frozen=True, slots=True)
class Assignment:
    """One of verl's settings and its value; `source` is the setting of ours, or the reason."""

    key: str
    value: Json
    source: str


def verl_settings(config: Config, cluster: Cluster, run: Path) -> tuple[Assignment, ...]:
    """Carry a configuration over; BadConfig where a setting would change its meaning.

    `run` is the run's folder, which every node must see under the same path.
    """
    check(config)
    return (
        *_model(config),
        *_rollout(config, cluster, run),
        *_training(config),
        *_machines(config, cluster),
    )


def _model(config: Config) -> Iterator[Assignment]:
    model = "actor_rollout_ref.model"
    folder = folder_of(config.model.name) or Path(config.model.name)
    yield Assignment(f"{model}.path", str(folder.resolve()), "model.name")
    yield Assignment(
        f"{model}.enable_gradient_checkpointing",
        config.model.gradient_checkpointing,
        "model.gradient_checkpointing",
    )
    on_cpu = config.model.device == "cpu"
    yield Assignment(f"{model}.use_remove_padding", not on_cpu, "packing needs flash attention")
    if on_cpu:
        how: Json = "sdpa"
        yield Assignment(f"+{model}.override_config.attn_implementation", how, "model.device")


def _rollout(config: Config, cluster: Cluster, run: Path) -> Iterator[Assignment]:
    rollout = "actor_rollout_ref.rollout"
    r = config.rollout
    server = CPU_SERVER if cluster.cpu else "vllm"
    yield Assignment(f"{rollout}.name", server, "model.device")
    yield Assignment(f"{rollout}.tensor_model_parallel_size", 1, "one server for each worker")
    yield Assignment(f"{rollout}.temperature", r.temperature, "rollout.temperature")
    yield Assignment(f"{rollout}.top_p", 1.0, "rollout.top_p")
    yield Assignment(f"{rollout}.top_k", -1, "rollout.top_k")
    yield Assignment(f"{rollout}.max_num_seqs", r.batch_rows, "rollout.batch_rows")
    yield Assignment(f"{rollout}.dtype", _dtype(config), "model.dtype")
    yield Assignment(f"{rollout}.n", 1, "each attempt is a request of its own")
    yield Assignment(f"{rollout}.calculate_log_probs", True, "replay needs them")
    yield Assignment("data.max_prompt_length", r.max_tokens, "rollout.max_tokens")
    yield Assignment("data.max_response_length", r.max_tokens, "rollout.max_tokens")
    yield Assignment("data.train_batch_size", r.tasks_per_step, "rollout.tasks_per_step")
    agent = f"{rollout}.agent"
    yield Assignment(f"{agent}.num_workers", cluster.workers, "as many as training workers")
    yield Assignment(f"{agent}.default_agent_loop", AGENT, "our environments and notes")
    path = str(run / "verl" / "agent.yaml")
    yield Assignment(f"{agent}.agent_loop_config_path", path, "our environments and notes")
    yield Assignment("reward.num_workers", 1, "environments score, nobody else")


def _training(config: Config) -> Iterator[Assignment]:
    actor, t = "actor_rollout_ref.actor", config.train
    yield Assignment(f"{actor}.strategy", "fsdp2", "sharded training")
    yield Assignment(f"{actor}.policy_loss.loss_mode", LOSS, "algo.loss and correction")
    yield Assignment(f"{actor}.loss_agg_mode", config.algo.aggregation, "algo.aggregation")
    yield Assignment(f"{actor}.use_dynamic_bsz", True, "train.pack_tokens")
    yield Assignment(f"{actor}.ppo_max_token_len_per_gpu", t.pack_tokens, "train.pack_tokens")
    rows = config.rollout.tasks_per_step
    yield Assignment(f"{actor}.ppo_mini_batch_size", rows, "unused: the loop cuts minibatches")
    yield Assignment(f"{actor}.use_kl_loss", False, "algo.kl_coef")
    yield Assignment(f"{actor}.entropy_coeff", 0, "algo.entropy_coef")
    yield Assignment(f"{actor}.use_torch_compile", config.model.device != "cpu", "model.device")
    yield Assignment(f"{actor}.optim.lr", t.learning_rate, "train.learning_rate")
    yield Assignment(f"{actor}.optim.lr_scheduler_type", "constant", "the loop sets each step's")
    yield Assignment(f"{actor}.optim.weight_decay", 0.0, "train.weight_decay")
    yield Assignment(f"{actor}.optim.betas", [t.beta1, t.beta2], "train.beta1, train.beta2")
    yield Assignment(f"{actor}.optim.override_optimizer_config", {"eps": t.eps}, "train.eps")
    yield Assignment(f"{actor}.optim.clip_grad", t.max_grad_norm, "train.max_grad_norm")
    yield Assignment(f"{actor}.grad_clip", t.max_grad_norm, "train.max_grad_norm")
    yield Assignment(
        f"{actor}.checkpoint.save_contents",
        ["model", "optimizer", "extra", "hf_model"],
        "checkpoints are model folders too",
    )
    engine = f"{actor}.fsdp_config"
    yield Assignment(f"{engine}.model_dtype", "fp32", "master weights")
    yield Assignment(f"{engine}.dtype", _dtype(config), "model.dtype")
    yield Assignment(f"{engine}.use_torch_compile", config.model.device != "cpu", "model.device")
    if _dtype(config) == "float32":
        # Else verl computes in bfloat16 whatever model_dtype says, and rounding passes for drift.
        exact: Json = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
        yield Assignment(f"+{engine}.mixed_precision", exact, "model.dtype")


def _machines(config: Config, cluster: Cluster) -> Iterator[Assignment]:
    sampler = "trainer.v1.sampler.custom_sampler"
    module = "pkg://recollect.integrations.verl.sampler"
    yield Assignment(f"{sampler}.path", module, "archives and publishes rows")
    yield Assignment(f"{sampler}.name", "PoolSampler", "archives and publishes rows")
    yield Assignment("trainer.device", "cpu" if cluster.cpu else "cuda", "model.device")
    yield Assignment("trainer.nnodes", cluster.nodes, "--nodes")
    yield Assignment("trainer.n_gpus_per_node", cluster.gpus, "--gpus")
    yield Assignment("trainer.total_training_steps", config.run.steps, "run.steps")
    yield Assignment("trainer.project_name", config.telemetry.project, "telemetry.project")
    yield Assignment("trainer.experiment_name", config.run.name or "run", "run.name")
    yield Assignment("trainer.resume_mode", "disable", "the loop restores from its checkpoints")
    yield Assignment("trainer.logger", [], "the run's metrics.jsonl and telemetry.sinks")
    yield Assignment("algorithm.adv_estimator", "grpo", "unused: the loop scores rows")
    yield Assignment("critic.enable", False, "algo.advantage")
    if cluster.cpu:
        units = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
        yield Assignment(units, 1, "a try-out needs little")
    ray = "ray_kwargs.ray_init"
    if cluster.address:
        yield Assignment(f"+{ray}.address", cluster.address, "--ray")
        return
    yield Assignment(f"+{ray}.address", "local", "a cluster of this run's own")
    if cluster.cpu:
        yield Assignment(f"{ray}.num_cpus", _RAY_CPUS * cluster.workers, "logical processors")
        yield Assignment(f"+{ray}.num_gpus", cluster.workers, "logical GPUs")
        yield Assignment(f"+{ray}.include_dashboard", False, "a try-out needs none")
        yield Assignment(f"+{ray}.object_store_memory", _STORE_BYTES, "a try-out needs little")


def _dtype(config: Config) -> str:
    wanted = config.model.dtype
    if wanted == "auto":
        return "float32" if config.model.device == "cpu" else "bfloat16"
    return wanted

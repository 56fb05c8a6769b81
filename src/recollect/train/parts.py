"""The parts of a run that a configuration describes: policy, reference, collector, evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recollect.config.schema.config import Config
from recollect.envs.base import Environment
from recollect.errors import RunMissing
from recollect.models.adapter import has_adapter
from recollect.models.loading import Lora, Policy, load_policy, place_of
from recollect.models.threads import choose_threads
from recollect.rollout.collector import Collector, Generator
from recollect.rollout.episode import Limits
from recollect.rollout.sampler import RowSampler
from recollect.train.changed import check_adapters, check_beginning
from recollect.train.checkpoint import Checkpoint, newest_checkpoint
from recollect.train.crediting import Crediting
from recollect.train.critic import CriticLearner, make_critic
from recollect.train.engine import Parts
from recollect.train.evaluation import Evaluator
from recollect.train.folder import RunFolder
from recollect.train.generating import make_sampler, own_sampler
from recollect.train.guards import Guard
from recollect.train.learner import Learner
from recollect.train.ranks import ALONE, Ranks
from recollect.train.scorer import Reference
from recollect.train.vocabulary import check_vocabulary


class InProcess:
    """The engine of a run whose model is in this process, and in those of the other ranks."""

    def __init__(self, ranks: Ranks = ALONE) -> None:
        self._ranks = ranks

    def open(
        self,
        folder: RunFolder,
        config: Config,
        environment: Environment,
        guard: Guard,
        checkpoint: Checkpoint | None,
    ) -> Parts:
        """Load the policy, here and in the other ranks."""
        if checkpoint is None:
            check_beginning(config)
        ranks = self._ranks
        ranks.open(folder.path, checkpoint.folder if checkpoint is not None else None)
        policy = policy_from(config, checkpoint)
        critic = critic_from(config, policy)
        reference = make_reference(config, policy, checkpoint)
        # Last of all: what is made of a policy is made of whole weights.
        shards = ranks.shard(policy) if config.train.parallel == "fsdp2" else None
        learner = Learner(policy, config, guard, reference, critic, ranks, shards)
        sampler = make_sampler(config, policy, folder, ranks.size)
        own = make_collector(config, environment, policy, sampler)
        collector = ranks.share(own, learner.parameters)
        crediting = None if critic is None else Crediting(config, learner)
        return Parts(learner, collector, crediting, policy)


def policy_from(config: Config, checkpoint: Checkpoint | None) -> Policy:
    """Load the policy a run starts from, or goes on with; BadConfig where that is another one."""
    if checkpoint is not None:
        check_adapters(config, checkpoint.folder)
    lora = config.model.lora
    adapters = (
        Lora(lora.rank, lora.alpha, lora.dropout, tuple(lora.targets) if lora.targets else None)
        if lora.rank
        else None
    )
    whole = checkpoint is not None and adapters is None
    policy = load_policy(
        str(checkpoint.folder) if checkpoint is not None and whole else config.model.name,
        dtype=config.model.dtype,
        device=config.model.device,
        lora=adapters,
        gradient_checkpointing=config.model.gradient_checkpointing,
        adapter=checkpoint.folder if checkpoint is not None and adapters else None,
        seed=config.run.seed,
        revision=config.model.revision,  # of a folder there is none, and nobody looks
    )
    _align(policy)
    choose_threads(policy, config.model.threads)
    return policy


def trained_policy(
    folder: RunFolder, config: Config, tell: Callable[[str], None]
) -> tuple[Policy, Checkpoint]:
    """Load what a run has come to: its newest whole checkpoint; RunMissing where there is none.

    `tell` hears of damaged ones that are passed over: the model is then an older one.
    """
    checkpoint = newest_checkpoint(folder.checkpoints, lambda damage: tell(damage.what))
    if checkpoint is None:
        raise RunMissing(folder.path, "the run has no checkpoint yet")
    return policy_from(config, checkpoint), checkpoint


def load_as_is(config: Config, name: str) -> Policy:
    """Load a model of a run that does not train here: its base, a checkpoint, a merged one."""
    return _unchanged(config, name, config.model.revision)


def make_reference(
    config: Config, policy: Policy, checkpoint: Checkpoint | None
) -> Reference | None:
    """Make what the KL divergence is measured against; None where nothing asks for it.

    A resumed policy has moved on already, so its beginning is loaded again; so is that of a policy
    that began with a trained adapter, which is part of it.
    """
    if not config.algo.kl_coef:
        return None
    named = config.algo.kl_reference
    if named is not None:
        revision = config.algo.kl_revision or _revision_of(config, named)
        same = place_of(named) == policy.base and revision in (None, policy.revision)
        if same and policy.has_adapter:
            return Reference(policy)
        other = _unchanged(config, named, revision)
        check_vocabulary(policy, other, "algo.kl_reference")
        return Reference(policy, other)
    moved = checkpoint is not None and not config.model.lora.rank
    if not moved and not has_adapter(config.model.name):
        return Reference(policy)
    start = policy_from(config, None)
    check_vocabulary(policy, start, "model.name")
    return Reference(policy, start)


def critic_from(config: Config, policy: Policy) -> CriticLearner | None:
    """Make the critic of a run, as it is before the first update; None where there is none."""
    if config.algo.advantage != "gae" or config.critic.kind == "head":
        return make_critic(config, policy, None)
    name = config.critic.model or config.model.name
    start = load_policy(
        name,
        dtype=config.model.dtype,
        device=config.model.device,
        gradient_checkpointing=config.model.gradient_checkpointing,
        seed=config.run.seed,
        revision=config.critic.revision or _revision_of(config, name),
    )
    check_vocabulary(policy, start, "critic.model" if config.critic.model else "model.name")
    start.merge()  # a policy may begin with an adapter; a critic has none
    start.model.requires_grad_(True)
    _align(start)
    return make_critic(config, policy, start)


def _unchanged(config: Config, name: str, revision: str | None) -> Policy:
    policy = load_policy(
        name, dtype=config.model.dtype, device=config.model.device, revision=revision
    )
    _align(policy)
    choose_threads(policy, config.model.threads)
    return policy


def _revision_of(config: Config, name: str) -> str | None:
    """Name the commit of a model that has none of its own: the policy's, if it is the same one.

    Of others the newest: runs write it down when they begin, but did not always.
    """
    return config.model.revision if place_of(name) == place_of(config.model.name) else None


def make_collector(
    config: Config, environment: Environment, policy: Policy, sampler: RowSampler | None = None
) -> Collector:
    """Make the collector that a configuration describes; without a sampler the policy samples."""
    rollout = config.rollout
    return Collector(
        environment,
        policy.chat,
        sampler or own_sampler(config, policy),
        Limits(rollout.max_tokens, rollout.max_turn_tokens, rollout.max_turns),
        call_seconds=rollout.call_seconds,
        episode_seconds=rollout.episode_seconds,
    )


def make_evaluator(
    config: Config,
    environment: Environment,
    collector: Generator,
    domains: Sequence[str] | None = None,
) -> Evaluator:
    """Make the evaluator that a configuration describes, for other domains than its own if given.

    No domains at all stands for all there are.
    """
    return Evaluator(
        environment,
        collector,
        split=config.eval.split,
        tasks=config.eval.tasks,
        rows=config.eval.rows,
        temperature=config.eval.temperature,
        levels=config.environment.levels,
        domains=config.environment.domains if domains is None else domains,
        floor_seconds=config.rollout.episode_seconds,
    )


def _align(policy: Policy) -> None:
    """Move weights on a CPU into memory of torch's own.

    Loaded, they lie wherever their file has them, and some kernels round differently by address:
    a resumed run would part from an undisturbed one in the last bit.
    """
    if policy.device.type == "cpu":
        for parameter in policy.model.parameters():
            parameter.data = parameter.data.clone()

"""Opening a service: the policy of a run, or a model by name, with the settings that go with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from recollect.config.loading import load_config
from recollect.config.schema.config import Config
from recollect.envs.base import Environment
from recollect.envs.lookup import TaskLookup
from recollect.envs.registry import load_environment
from recollect.errors import BadEnvironment, UnknownTask
from recollect.models.loading import Policy, load_policy
from recollect.models.threads import choose_threads
from recollect.rollout.episode import Limits
from recollect.rollout.sampler import Sampler
from recollect.serving.service import Origin, PolicyService
from recollect.store.base import Store
from recollect.train.folder import RunFolder, named_run
from recollect.train.parts import trained_policy
from recollect.types import RunId, Task


def open_service(
    name: str,
    store: Store | None,
    environment: str | None,
    seed: int,
    options: Mapping[str, object] | None = None,
    tell: Callable[[str], None] = lambda damage: None,
) -> tuple[PolicyService, int]:
    """Open a policy for serving; also gives how long an answer may get where nobody says.

    `environment` names the one whose tasks the agents attempt: its version and its tasks' keys
    make rows that a run on it can replay. None is the run's own; for a model by name, none.
    `options` are the environment's, on top of the run's where it is the run's own. `tell` hears of
    damaged checkpoints that are passed over.
    """
    config, policy, step, version = _policy(name, tell)
    is_run = RunFolder(Path(name)).config.is_file()
    world = _environment(config, environment, is_run, options or {})
    label = Path(name).name or name
    origin = Origin(
        name=label,
        run=RunId(f"served-{uuid.uuid4().hex[:12]}"),
        seed=seed,
        step=step,
        policy_version=version,
        environment=world.name if world else "served",
        environment_version=world.version if world else "1",
    )
    rollout = config.rollout
    sampler = Sampler(policy.model, policy.chat.stop_ids, rollout.batch_rows)
    tokens = rollout.max_tokens if is_run else sampler.max_positions or rollout.max_tokens
    limits = Limits(tokens, tokens, 2**31 - 1)
    find = partial(_find, TaskLookup(world) if world else None)
    service = PolicyService(policy.chat, sampler, limits, origin, store, find)
    # A run's agent was trained to come to the point in so many tokens; a model by name was not.
    return service, rollout.max_turn_tokens if is_run else tokens


def _policy(name: str, tell: Callable[[str], None]) -> tuple[Config, Policy, int, int]:
    folder = named_run(name)
    if folder is None:
        policy = load_policy(name)
        choose_threads(policy)
        return load_config(None, []).config, policy, 0, 0
    config = folder.load()
    policy, checkpoint = trained_policy(folder, config, tell)
    version = int(str(checkpoint.state["policy_version"]))
    return config, policy, checkpoint.step, version


def _environment(
    config: Config, name: str | None, is_run: bool, options: Mapping[str, object]
) -> Environment | None:
    if name is not None:
        return load_environment(name, **options)
    if is_run:
        own = {**config.environment.options, **options}
        return load_environment(config.environment.name, **own)
    if options:
        raise BadEnvironment("(none)", f"it has no option {next(iter(options))}", "Name it: --env")
    return None


def _find(known: TaskLookup | None, id_: str) -> Task | None:
    """Find a task that a conversation names; None where the environment has none of this id."""
    try:
        return known.find(id_) if known is not None else None
    except UnknownTask:
        return None

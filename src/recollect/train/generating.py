"""What samples for a run that trains: the policy itself, or vLLM beside it."""

from __future__ import annotations

from pathlib import Path

import torch

from recollect.config.schema.config import Config
from recollect.errors import BadConfig
from recollect.models.loading import Policy, place_of
from recollect.rollout.sampler import RowSampler, Sampler
from recollect.rollout.turns import Speaker, TurnSampler
from recollect.rollout.vllm import VllmEngine, logprobs_mode, require_vllm
from recollect.rollout.vllm_server import VllmServer
from recollect.train.folder import RunFolder
from recollect.wire.secret import secret

_TOKEN = "VLLM_API_KEY"  # vLLM's own name for it


def require_generator(config: Config) -> None:
    """Raise MissingExtra where what shall sample is not installed, before anything is made."""
    if config.rollout.engine == "vllm":
        device = config.model.device
        require_vllm(cpu=device == "cpu" or (device == "auto" and not torch.cuda.is_available()))


def own_sampler(config: Config, policy: Policy) -> Sampler:
    """Let the policy sample for itself, in this process."""
    return Sampler(policy.model, policy.chat.stop_ids, config.rollout.batch_rows)


def make_sampler(config: Config, policy: Policy, folder: RunFolder, processes: int) -> RowSampler:
    """Open what a configuration asks to sample with; BadConfig where it cannot take the policy."""
    rollout = config.rollout
    if rollout.engine == "hf":
        return own_sampler(config, policy)
    problem = _problem(policy, processes)
    if problem:
        what = f"rollout.engine = {rollout.engine} cannot be used here: {problem}."
        raise BadConfig([(what, "Set rollout.engine=hf.")])
    speaker = _server(config, policy, folder) if rollout.url else _engine(config, policy)
    return TurnSampler(speaker, policy.chat.stop_ids, rollout.batch_rows)


def _problem(policy: Policy, processes: int) -> str:
    """Say why vLLM cannot sample for a policy; empty if it can."""
    if processes > 1:
        return f"{processes} processes train this run, and vLLM needs one"
    if policy.columns is not None:
        return "the model has columns of ours, which vLLM does not know"
    if policy.has_adapter:
        return "the model has adapters, and whole weights are pushed (recollect model export)"
    return ""


def _engine(config: Config, policy: Policy) -> Speaker:
    rollout = config.rollout
    name, revision = config.model.name, config.model.revision
    return VllmEngine(
        policy,
        place_of(name),
        revision=None if Path(place_of(name)).exists() else revision,
        positions=_positions(config, policy),
        rows=rollout.batch_rows,
        memory=rollout.vllm_memory,
        mode=logprobs_mode(rollout.top_p, rollout.top_k),
    )


def _server(config: Config, policy: Policy, folder: RunFolder) -> Speaker:
    rollout = config.rollout
    assert rollout.url is not None, "the schema asks for it"
    return VllmServer(
        policy,
        rollout.url,
        folder.served,
        positions=_positions(config, policy),
        rows=rollout.batch_rows,
        mode=logprobs_mode(rollout.top_p, rollout.top_k),
        token=secret(_TOKEN),
    )


def _positions(config: Config, policy: Policy) -> int:
    """Longest row there can be: notes come on top of rollout.max_tokens, up to the model's end."""
    longest = config.rollout.max_tokens
    told = getattr(policy.model.config, "max_position_embeddings", None)
    positions = int(told) if told else longest
    has_notes = config.notes.rollout != "bare" or config.notes.evaluation != "bare"
    return positions if has_notes else min(longest, positions)

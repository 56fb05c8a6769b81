"""What verl loads on a CPU behind its platform: an engine and a rollout server."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
import verl.workers.rollout.base as rollout_base
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.rollout.replica import RolloutReplicaRegistry

from recollect.integrations.verl.mapping import CPU_SERVER

_ADAPTER = "recollect.integrations.verl.cpu.server.CpuServerAdapter"
_TWICE = "cpu:gloo,cpu:gloo"  # what verl spells where the device is the CPU; torch refuses it
_begin = dist.init_process_group


def _init_process_group(backend: str | None = None, *given: Any, **named: Any) -> None:
    _begin("gloo" if backend == _TWICE else backend, *given, **named)


def _replica() -> type:
    from recollect.integrations.verl.cpu.server import CpuReplica

    return CpuReplica


dist.init_process_group = _init_process_group
EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device=["cpu"])(
    FSDPEngineWithLMHead
)
rollout_base._ROLLOUT_REGISTRY[(CPU_SERVER, "async")] = _ADAPTER
RolloutReplicaRegistry.register(CPU_SERVER, _replica)

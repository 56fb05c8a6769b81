"""Weights that are cut among the processes of a run: FSDP2 (torch's `fully_shard`).

Every process keeps a slice of each parameter, of its gradient and of its moments. A pass that
trains gathers one layer after the other and lets it go again, and the gradients of all processes
are added up on the way back. Whatever else reads weights (sampling, scoring) does so while all of
them are gathered. Both need every process, in the same order; `recollect.engines` sees to that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch

from recollect.errors import CannotShard
from recollect.models.loading import Policy

_TINY = 1e-6  # added to a norm before dividing by it, as torch does


class Shards(Protocol):
    """What passes through cut weights need of the other processes."""

    def passing(self) -> AbstractContextManager[None]:
        """Name a process that is lost in a pass: RankLost."""

    def passes(self, mine: int) -> int:
        """Tell how many passes the process that has most of them makes; we need `mine`."""


def shard(policy: Policy) -> None:
    """Cut a policy's weights among all processes, layer by layer; each keeps its slice.

    All processes call it, with the same weights. CannotShard where the model, or the torch that is
    installed, does not allow it.
    """
    if policy.columns is not None:
        raise CannotShard(f"{policy.source} has columns of a continual run")
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

        _ = FSDPModule.set_force_sum_reduction_for_comms
    except (ImportError, AttributeError) as error:
        raise CannotShard(f"torch {torch.__version__} is too old for it ({error})") from error
    mesh = init_device_mesh(policy.device.type, (torch.distributed.get_world_size(),))
    exact = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    for module in (*_layers(policy.model), policy.model):
        fully_shard(module, mesh=mesh, mp_policy=exact)
    for module in sharded_modules(policy.model):
        # Losses are divided by the denominator of the whole step already: a sum, no mean.
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)


def sharded_modules(model: Any) -> list[Any]:
    """List the modules that gather their weights by themselves; the whole model comes first."""
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]


@contextmanager
def gathered(model: Any) -> Iterator[None]:
    """Hold all weights of a cut model inside. Every process must enter; passes are each one's own.

    They are there to be read: what is changed inside is lost.
    """
    modules = sharded_modules(model)
    for module in modules:
        module.set_reshard_after_forward(False, recurse=False)
        module.unshard()
    try:
        yield
    finally:
        for module in modules:
            module.reshard()
            # The outermost has what the backward pass needs first.
            module.set_reshard_after_forward(module is not modules[0], recurse=False)


def whole_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Put the slices of a tensor together, with all processes; others stay as they are."""
    cut: Any = tensor
    found: torch.Tensor = cut.full_tensor() if hasattr(cut, "full_tensor") else tensor
    return found


def cut_like(value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Keep of a whole tensor what this process keeps of a parameter, on the same device."""
    like: Any = parameter
    value = value.to(parameter.device)
    if not hasattr(like, "full_tensor"):
        return value
    from torch.distributed.tensor import distribute_tensor

    mesh, placements = like.device_mesh, like.placements
    return distribute_tensor(value, mesh, placements, src_data_rank=None)  # it has all of it


def whole_weights(policy: Policy) -> dict[str, torch.Tensor]:
    """Put together what a checkpoint of a policy holds, on the CPU, with all processes.

    With adapters that is theirs alone. A parameter that has two names is there under its first.
    """
    model = policy.model
    parameters = policy.trainable() if policy.has_adapter else model.named_parameters()
    found = {name: whole_tensor(p.detach()).cpu() for name, p in parameters}
    if not policy.has_adapter:
        names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        buffers = model.state_dict().items()
        found.update((name, each.cpu()) for name, each in buffers if name not in names)
    return found


@torch.no_grad()
def sum_of_squares(parameters: Iterable[torch.nn.Parameter]) -> float:
    """Sum of the squares of the gradients of this process's slices, in double precision."""
    norms = [torch.linalg.vector_norm(g, dtype=torch.float64) for g in _gradients(parameters)]
    return float(torch.stack(norms).square().sum()) if norms else 0.0


@torch.no_grad()
def scale_gradients(parameters: Iterable[torch.nn.Parameter], scale: float) -> None:
    """Multiply the gradients of this process's slices by a number."""
    if scale != 1.0:
        for grad in _gradients(parameters):
            grad.mul_(scale)


def clip_scale(squares: float, most: float) -> tuple[float, float]:
    """Norm of a gradient, and what to multiply it by so that it is at most `most`.

    min(1, most / (norm + 1e-6)), as `torch.nn.utils.clip_grad_norm_` has it.
    """
    norm = math.sqrt(squares) if squares >= 0 else math.nan
    return norm, min(1.0, most / (norm + _TINY)) if math.isfinite(norm) else 1.0


def _gradients(parameters: Iterable[torch.nn.Parameter]) -> Iterator[torch.Tensor]:
    for parameter in parameters:
        if parameter.grad is not None:
            grad: Any = parameter.grad
            yield grad.to_local() if hasattr(grad, "to_local") else grad


def _layers(model: Any) -> list[torch.nn.Module]:
    """Find the blocks that a model's author wants to be kept together."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    names = set(getattr(base, "_no_split_modules", None) or ())
    return [module for module in base.modules() if type(module).__name__ in names]

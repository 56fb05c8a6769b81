"""AdamW with a learning-rate schedule that is a pure function of the step, saved without pickle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from recollect.config.schema.train import TrainSettings
from recollect.train.sharding import cut_like, whole_tensor


def learning_rate(
    config: TrainSettings, step: int, steps: int, largest: float | None = None
) -> float:
    """Rate of a step (1 to steps): linear warm-up, then constant, or linear or cosine to 0.

    `largest` takes the place of the configured rate; the schedule stays.
    """
    base = config.learning_rate if largest is None else largest
    if step <= config.warmup_steps:
        return base * step / config.warmup_steps
    if config.schedule == "constant":
        return base
    left = (steps - step + 1) / max(1, steps - config.warmup_steps)
    if config.schedule == "linear":
        return base * left
    return base * 0.5 * (1.0 - math.cos(math.pi * left))


def make_optimizer(
    parameters: Sequence[tuple[str, torch.nn.Parameter]], config: TrainSettings
) -> torch.optim.AdamW:
    """Make AdamW over named parameters; vectors (norms, biases) are not decayed."""
    matrices = [p for _, p in parameters if p.ndim >= 2]
    vectors = [p for _, p in parameters if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
    )


def moments_of(
    optimizer: torch.optim.AdamW, parameters: Sequence[tuple[str, torch.nn.Parameter]]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Name the moments of every parameter, whole: where they are cut, all processes must ask."""
    for name, parameter in parameters:
        for key, value in optimizer.state.get(parameter, {}).items():
            yield f"{key}:{name}", whole_tensor(value.detach())


def save_optimizer(
    optimizer: torch.optim.AdamW,
    parameters: Sequence[tuple[str, torch.nn.Parameter]],
    path: Path,
) -> None:
    """Write the moments of every parameter, by name, as safetensors."""
    from safetensors.torch import save_file

    found = moments_of(optimizer, parameters)
    save_file({name: value.contiguous().cpu() for name, value in found}, str(path))


def load_optimizer(
    optimizer: torch.optim.AdamW,
    parameters: Sequence[tuple[str, torch.nn.Parameter]],
    path: Path,
) -> None:
    """Restore the moments that `save_optimizer` wrote, or the slices of them that are ours."""
    from safetensors.torch import load_file

    named = dict(parameters)
    for full_name, value in load_file(str(path)).items():
        key, _, name = full_name.partition(":")
        # AdamW keeps its step count on the CPU, and whole.
        optimizer.state[named[name]][key] = value if key == "step" else cut_like(value, named[name])

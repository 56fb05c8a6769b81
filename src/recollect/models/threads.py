"""How many threads a model is computed with on a CPU."""

from __future__ import annotations

import os

import torch

from recollect.models.loading import Policy

# Parameters below which tensors are so small that threads mostly wait for each other.
SMALL = 10_000_000


def choose_threads(policy: Policy, wanted: int | None = None) -> None:
    """Set torch's threads, in the whole process, to as many as the model can use on a CPU.

    What is `wanted` counts first, then OMP_NUM_THREADS where somebody set it. Otherwise a small
    model gets one thread: it is no faster with more, and many times slower where other programs
    use the cores too. A larger model gets what torch chooses: all cores.
    """
    if wanted is not None:
        torch.set_num_threads(wanted)
        return
    free = policy.device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ
    if free and sum(weights.numel() for weights in policy.model.parameters()) < SMALL:
        torch.set_num_threads(1)

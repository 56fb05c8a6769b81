"""The machines that a run under verl may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes, and training workers on each: one for every GPU.

    `cpu` runs the workers and our own rollout server on the CPU, for tests and for trying things
    out; the GPUs are then logical ones. `address` is that of a Ray cluster to join; "" starts one
    for this run alone.
    """

    nodes: int = 1
    gpus: int = 1
    cpu: bool = False
    address: str = ""

    @property
    def workers(self) -> int:
        """Training workers in all."""
        return self.nodes * self.gpus

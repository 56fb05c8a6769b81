"""What cannot go together with weights that are cut among processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recollect.config.schema.section import conflict

if TYPE_CHECKING:
    from recollect.config.schema.config import Config


def check_parallel(config: Config) -> None:
    """Refuse, with train.parallel = fsdp2, what needs all weights where there is a slice."""
    if config.train.parallel != "fsdp2":
        return
    if config.algo.advantage == "gae":
        raise conflict(
            "train.parallel",
            "algo.advantage",
            what="train.parallel = fsdp2 cuts the policy's weights, and a critic "
            "(algo.advantage = gae) is not cut with them",
            change="Set train.parallel=ddp, or another algo.advantage.",
        )
    if config.distill.every and config.distill.by == "policy":
        raise conflict(
            "train.parallel",
            "distill.by",
            what="distill.by = policy asks the model between two phases of a step, where "
            "train.parallel = fsdp2 leaves each process a slice of it",
            change="Set train.parallel=ddp, or distill.by=rules or endpoint.",
        )

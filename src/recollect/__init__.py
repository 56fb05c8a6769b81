"""Recollect: reinforcement learning for LLM agents in which every rollout counts more than once.

The names below are the public interface (docs/python.md). They load when first used, so that
importing the package costs next to nothing and never pulls in torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recollect.config import load_config
    from recollect.errors import RecollectError
    from recollect.ledger import Run
    from recollect.replay.pool import Pool
    from recollect.store import open_reader, open_store
    from recollect.store.exporting import export_file
    from recollect.store.importing import import_file
    from recollect.store.records import Batch, Query
    from recollect.telemetry.reading import read_metrics
    from recollect.trajectory import Trajectory
    from recollect.types import (
        Origin,
        Reward,
        RunId,
        Sampling,
        Segment,
        SegmentKind,
        Task,
        group_id,
        trajectory_id,
    )

__version__ = "0.1.0.dev0"

_HOMES = {
    "Batch": "recollect.store.records",
    "Origin": "recollect.types",
    "Pool": "recollect.replay.pool",
    "Query": "recollect.store.records",
    "RecollectError": "recollect.errors",
    "Reward": "recollect.types",
    "Run": "recollect.ledger",
    "RunId": "recollect.types",
    "Sampling": "recollect.types",
    "Segment": "recollect.types",
    "SegmentKind": "recollect.types",
    "Task": "recollect.types",
    "Trajectory": "recollect.trajectory",
    "export_file": "recollect.store.exporting",
    "group_id": "recollect.types",
    "import_file": "recollect.store.importing",
    "load_config": "recollect.config",
    "open_reader": "recollect.store",
    "open_store": "recollect.store",
    "read_metrics": "recollect.telemetry.reading",
    "trajectory_id": "recollect.types",
}

__all__ = [
    "Batch",
    "Origin",
    "Pool",
    "Query",
    "RecollectError",
    "Reward",
    "Run",
    "RunId",
    "Sampling",
    "Segment",
    "SegmentKind",
    "Task",
    "Trajectory",
    "__version__",
    "export_file",
    "group_id",
    "import_file",
    "load_config",
    "open_reader",
    "open_store",
    "read_metrics",
    "trajectory_id",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'recollect' has no attribute {name!r}")

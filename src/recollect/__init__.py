"""Recollect: reinforcement learning for LLM agents in which every rollout counts more than once.

The names below are the public interface. They load when first used, so that importing the
package costs next to nothing and never pulls in torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recollect.errors import RecollectError
    from recollect.replay.pool import Pool
    from recollect.store import open_reader, open_store
    from recollect.store.records import Batch, Query
    from recollect.trajectory import Trajectory
    from recollect.types import Segment, Task

__version__ = "0.1.0.dev0"

_HOMES = {
    "Batch": "recollect.store.records",
    "Pool": "recollect.replay.pool",
    "Query": "recollect.store.records",
    "RecollectError": "recollect.errors",
    "Segment": "recollect.types",
    "Task": "recollect.types",
    "Trajectory": "recollect.trajectory",
    "open_reader": "recollect.store",
    "open_store": "recollect.store",
}

__all__ = [
    "Batch",
    "Pool",
    "Query",
    "RecollectError",
    "Segment",
    "Task",
    "Trajectory",
    "__version__",
    "open_reader",
    "open_store",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'recollect' has no attribute {name!r}")

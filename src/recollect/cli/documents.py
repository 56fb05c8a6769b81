"""Records as JSON documents with stable keys: what `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from recollect.store.arrays import floats_to_list, spans_to_list
from recollect.store.plain import trajectory_to_plain
from recollect.store.records import Row
from recollect.trajectory import Trajectory
from recollect.types import Task


def document(record: object) -> object:
    """Turn a record into JSON: fields by name, enums by value, arrays as lists, paths as text."""
    if isinstance(record, Enum):
        return record.value
    if isinstance(record, np.ndarray):
        return record.tolist()
    if isinstance(record, Path):
        return str(record)
    if is_dataclass(record) and not isinstance(record, type):
        return {field.name: document(getattr(record, field.name)) for field in fields(record)}
    if isinstance(record, Mapping):
        return {str(key): document(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [document(item) for item in record]
    return record


def row_document(row: Row, task: Task, age: int | None) -> dict[str, object]:
    """Describe a row as `ls --json` does: its fields, its task's id, its age (or null)."""
    values = {name: document(value) for name, value in asdict(row).items()}
    return values | {"task_id": task.id, "age": age}


def trajectory_document(trajectory: Trajectory) -> dict[str, object]:
    """Describe a trajectory whole, token by token, with the keys of an export's JSON lines."""
    logprobs, entropies = trajectory.logprobs, trajectory.entropies
    return trajectory_to_plain(trajectory) | {
        "tokens": trajectory.tokens.tolist(),
        "sampled": spans_to_list(trajectory.sampled),
        "logprobs": None if logprobs is None else floats_to_list(logprobs),
        "entropies": None if entropies is None else floats_to_list(entropies),
    }

"""Records as bytes, to be sent from process to process of one run. No pickle.

A message is a JSON text followed by the bytes of its arrays and trajectories. Only the record
classes in `_KNOWN` are understood; a field that they gain travels by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from recollect.engines import messages
from recollect.notes.inject import Guidance, PromptNote
from recollect.replay.pick import Pick
from recollect.rollout.collector import Collected
from recollect.rollout.episode import Request
from recollect.rollout.round import Failure
from recollect.store import codec
from recollect.train.batch import ScoredRow
from recollect.train.credit import Credit
from recollect.train.ranks import Work
from recollect.train.replayed import ReplayedTokens
from recollect.train.report import CriticFigures, StepFigures
from recollect.train.stripped import StrippedTokens
from recollect.trajectory import Trajectory
from recollect.types import Sampling, Task

_RECORDS: tuple[type, ...] = (
    messages.Open,
    messages.Visit,
    messages.Ready,
    messages.Play,
    messages.Played,
    messages.Compute,
    messages.Computed,
    messages.Gather,
    messages.Apply,
    messages.Lend,
    messages.Broken,
    messages.End,
    Collected,
    Credit,
    CriticFigures,
    Failure,
    Guidance,
    Pick,
    PromptNote,
    ReplayedTokens,
    Request,
    Sampling,
    ScoredRow,
    StepFigures,
    StrippedTokens,
    Task,
    Work,
)
_KNOWN: dict[str, type] = {kind.__name__: kind for kind in _RECORDS}
_SIZE = 8  # bytes of the JSON's length


def encode(record: object) -> bytes:
    """Turn a record into bytes; TypeError where a part of it is of no known kind."""
    blobs: list[bytes] = []
    tree = _tree(record, blobs)
    text = json.dumps([tree, [len(blob) for blob in blobs]]).encode()
    return b"".join((len(text).to_bytes(_SIZE, "little"), text, *blobs))


def decode(message: bytes) -> Any:
    """Turn bytes back into the record they were made from."""
    size = int.from_bytes(message[:_SIZE], "little")
    tree, lengths = json.loads(message[_SIZE : _SIZE + size])
    blobs, at = [], _SIZE + size
    for length in lengths:
        blobs.append(message[at : at + length])
        at += length
    return _record(tree, blobs)


def _tree(value: object, blobs: list[bytes]) -> object:
    """Write a value as JSON: plain ones as they are, all others as [kind, content]."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Trajectory):
        blobs.append(codec.encode(value))
        return ["trajectory", len(blobs) - 1]
    if isinstance(value, np.ndarray):
        blobs.append(np.ascontiguousarray(value).tobytes())
        return ["array", [len(blobs) - 1, value.dtype.str, list(value.shape)]]
    if isinstance(value, list | tuple):
        return [type(value).__name__, [_tree(each, blobs) for each in value]]
    if isinstance(value, frozenset):
        return ["frozenset", [_tree(each, blobs) for each in sorted(value)]]
    if isinstance(value, Mapping):
        return ["dict", [[_tree(k, blobs), _tree(v, blobs)] for k, v in value.items()]]
    name = type(value).__name__
    if _KNOWN.get(name) is not type(value) or not is_dataclass(value):
        raise TypeError(f"{type(value)} cannot be sent to another process")
    content = {f.name: _tree(getattr(value, f.name), blobs) for f in fields(value) if f.init}
    return [name, content]


def _record(tree: Any, blobs: list[bytes]) -> Any:
    if not isinstance(tree, list):
        return tree
    kind, content = tree
    if kind == "trajectory":
        return codec.decode(blobs[content])
    if kind == "array":
        number, dtype, shape = content
        return np.frombuffer(blobs[number], dtype).reshape(shape)
    if kind == "dict":
        return {_record(key, blobs): _record(value, blobs) for key, value in content}
    if kind in ("list", "tuple", "frozenset"):
        parts = [_record(each, blobs) for each in content]
        return parts if kind == "list" else tuple(parts) if kind == "tuple" else frozenset(parts)
    return _KNOWN[kind](**{name: _record(each, blobs) for name, each in content.items()})

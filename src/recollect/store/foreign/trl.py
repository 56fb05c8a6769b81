"""TRL's logged completions (`log_completions=True`): Parquet files, one per step.

Columns `step`, `prompt`, `completion` (texts or messages), one of floats for each reward function,
`advantage`, and whatever the user logged. No tokens are in them, so the rows are demos.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.errors import BadFile, InvalidRecord, MissingExtra
from recollect.store.fields import Fields, kind_of


def read_trl(path: Path) -> Iterator[dict[str, Any]]:
    """Read the rows of a file as plain values, a batch at a time."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("Reading TRL's completions", "parquet") from error
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            for needed in ("prompt", "completion"):
                if needed not in names:
                    why = f"it has no column {needed!r}: not TRL's completions"
                    raise BadFile(path, why, "Name one of completions/completions_*.parquet.")
            for batch in file.iter_batches(batch_size=256):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        why = f"it cannot be read as Parquet ({str(error).splitlines()[0][:200]})"
        raise BadFile(path, why) from error


def row_of_trl(fields: Fields) -> dict[str, Any]:
    """Put one row into our spelling. The reward is the sum of TRL's reward functions.

    Their weights are not recorded. A function that gave no reward (NaN) has no part in it.
    """
    prompt = _messages(fields, "prompt", "user")
    completion = _messages(fields, "completion", "assistant")
    step, advantage = fields.take("step", 0), fields.take("advantage", None)
    rest = fields.rest()
    parts = {name: value for name, value in rest.items() if isinstance(value, float)}
    given = {name: value for name, value in parts.items() if not math.isnan(value)}
    if not given:
        raise InvalidRecord("reward", "is missing: no column holds the rewards of a function")
    extra = {name: value for name, value in rest.items() if name not in parts}
    if isinstance(advantage, float) and math.isfinite(advantage):
        extra["advantage"] = advantage
    row = {
        "messages": [*prompt, *completion],
        "reward": sum(given.values()),
        "reward_parts": given,
        "step": int(step) if isinstance(step, float) and step.is_integer() else step,
    }
    return {**row, "extra": {"trl": extra}} if extra else row


def _messages(fields: Fields, member: str, role: str) -> list[dict[str, Any]]:
    value = fields.take(member)
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidRecord(member, f"expected text or messages, got {kind_of(value)}")
    # A struct column has every key in every message; what a message lacks is null there.
    return [{k: v for k, v in item.items() if v is not None} for item in value]

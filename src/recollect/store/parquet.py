"""Parquet files, in and out: one row per trajectory, with its task and its run beside it.

Scalars are columns; tokens, mask, log-probs and entropies are lists; segments are a list of
structs. Needs pyarrow (the extra `parquet`). Texts of notes are not in the file, only which
note stood where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from recollect.canonical import canonical_json, strict_json
from recollect.errors import BadFile, InvalidRecord, MissingExtra
from recollect.errors.extras import update_command
from recollect.ledger import Run
from recollect.store import plain
from recollect.store.arrays import Arrays
from recollect.store.fields import Fields, kind_of, nearest, shorten
from recollect.store.incoming import BadLine, Incoming, Limits, bad_line
from recollect.store.outgoing import Outgoing
from recollect.types import RunId, Task

MAGIC = b"PAR1"
VERSION = 1
_VERSION_KEY = b"recollect.version"
_ROWS_AT_ONCE = 64
_GROUP_ROWS = 1024
_GROUP_BYTES = 32 * 2**20
_TASK = {"task_" + name: name for name in ("environment", "id", "version", "query")} | {
    name: name for name in ("domain", "split", "level")
}
_ARRAYS = ("tokens", "sampled", "logprobs", "entropies")


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("Parquet", "parquet") from None
    return pyarrow, pyarrow.parquet


def _schema(pa: Any) -> Any:
    text, count = pa.string(), pa.int32()
    call = pa.struct([("name", text), ("arguments", text), ("id", text)])
    segment = pa.struct(
        [("kind", text), ("start", count), ("end", count), ("text", text)]
        + [("calls", pa.list_(call)), ("call_id", text), ("name", text)]
    )
    sampling = pa.struct(
        [("temperature", pa.float64()), ("top_p", pa.float64())]
        + [("top_k", count), ("max_tokens", count)]
    )
    note = pa.struct([("note", text), ("start", count), ("end", count)])
    part = pa.struct([("name", text), ("value", pa.float64())])
    columns = [
        *(("id", text), ("task", text), ("run", text), ("step", count), ("group", text)),
        *(("origin", text), ("policy_version", count)),
        *(("reward", pa.float64()), ("reward_parts", pa.list_(part)), ("success", pa.bool_())),
        *(("stop", text), ("sampling", sampling)),
        *(("tokens", pa.list_(count)), ("sampled", pa.list_(pa.bool_()))),
        *(("logprobs", pa.list_(pa.float32())), ("entropies", pa.list_(pa.float32()))),
        *(("segments", pa.list_(segment)), ("notes", pa.list_(note)), ("tokenizer", text)),
        *(("environment_version", text), ("reward_version", text)),
        *(("started", pa.float64()), ("finished", pa.float64()), ("extra", text)),
        *((column, count if column == "level" else text) for column in _TASK),
        *(("run_seed", pa.int64()), ("run_config", text)),
    ]
    return pa.schema(columns, metadata={_VERSION_KEY: str(VERSION).encode()})


# -- reading ------------------------------------------------------------------------------


def read(path: Path, limits: Limits) -> Iterator[Incoming | BadLine]:
    """Read a file in small batches; BadFile where it is damaged or not one of ours."""
    pa, pq = _pyarrow()
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _check_schema(path, file.schema_arrow, _schema(pa))
            _check_sizes(path, file.metadata, limits)
            line = 0
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, use_threads=False):
                batch.validate(full=True)
                for row in _rows(batch):
                    line += 1
                    yield _read_row(row, line, limits)
    except (pa.ArrowException, OSError) as error:
        why = f"it cannot be read as Parquet ({str(error).splitlines()[0][:200]})"
        raise BadFile(path, why, "The file may be damaged; nothing was imported.") from error


def _check_schema(path: Path, found: Any, ours: Any) -> None:
    version = (found.metadata or {}).get(_VERSION_KEY, b"1")
    if version != str(VERSION).encode():
        why = f"it has format version {shorten(version.decode('ascii', 'replace'))}"
        raise BadFile(path, why, f"Update Recollect with: {update_command()}")
    hint = "Only files written by an export of Recollect can be read; convert others to messages."
    if missing := [name for name in ours.names if name not in found.names]:
        raise BadFile(path, f"it has no column {missing[0]!r}: not an export of Recollect", hint)
    for name in found.names:
        if found.names.count(name) > 1 or name not in ours.names:
            near = nearest(name, ours.names)
            guess = f"; did you mean {near!r}?" if near else ""
            raise BadFile(path, f"the column {shorten(name)} is not known{guess}", hint)
        if not _alike(found.field(name).type, ours.field(name).type):
            types = f"{found.field(name).type} where {ours.field(name).type} is expected"
            raise BadFile(path, f"the column {name!r} holds {types}", hint)


def _alike(found: Any, ours: Any) -> bool:
    """Tell whether lists are lists of the same; other columns are checked value by value."""
    pa, _ = _pyarrow()
    if not pa.types.is_list(ours):
        return True
    if not (pa.types.is_list(found) or pa.types.is_large_list(found)):
        return False
    for same in (pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating):
        if same(ours.value_type):
            return bool(same(found.value_type))
    return bool(pa.types.is_struct(found.value_type))


def _check_sizes(path: Path, metadata: Any, limits: Limits) -> None:
    """Refuse row groups that would unfold to more than the limits allow."""
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        values = max(group.column(i).num_values for i in range(group.num_columns))
        if group.total_byte_size > limits.max_group_bytes or values * 4 > limits.max_group_bytes:
            why = f"row group {index} unfolds to more than {limits.max_group_bytes:,} bytes"
            raise BadFile(path, why, "Write it again with smaller row groups.")


def _rows(batch: Any) -> Iterator[dict[str, Any]]:
    """Yield rows as plain values, their arrays as Arrow arrays (None where null)."""
    arrays = {name: batch.column(name) for name in _ARRAYS}
    others = batch.select([name for name in batch.schema.names if name not in _ARRAYS])
    for index, row in enumerate(others.to_pylist()):
        yield row | {name: column[index].values for name, column in arrays.items()}


def _read_row(row: dict[str, Any], line: int, limits: Limits) -> Incoming | BadLine:
    try:
        arrays = _read_arrays(row)
        task = _read_task(row)
        run = Run(RunId(row["run"]), row.pop("run_seed"), _read_json("run_config", row))
        row["extra"] = _read_json("extra", row)
        row["reward_parts"] = _read_parts(row["reward_parts"] or [])
        trajectory = plain.trajectory_from(Fields(row), arrays, limits)
    except (InvalidRecord, RecursionError) as error:
        return bad_line(line, error)
    size = 13 * trajectory.tokens.size + sum(len(s.text) for s in trajectory.segments)
    return Incoming(line, size, runs=(run,), tasks=(task,), trajectories=(trajectory,))


def _read_arrays(row: dict[str, Any]) -> Arrays:
    found: dict[str, Any] = {}
    for name in _ARRAYS:
        values = row.pop(name)
        if values is None and name in ("tokens", "sampled"):
            raise InvalidRecord(name, "is missing")
        if values is not None and values.null_count:
            raise InvalidRecord(name, "holds a null")
        found[name] = None if values is None else values.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        for name in ("logprobs", "entropies"):
            if found[name] is not None:
                found[name] = found[name].astype(np.float32, copy=False)
    found["tokens"] = found["tokens"].astype(np.int64, copy=False)
    return Arrays(**found)


def _read_task(row: dict[str, Any]) -> Task:
    fields = Fields({name: row.pop(column) for column, name in _TASK.items()})
    task = plain.task_from(fields)
    if task.key != row["task"]:
        raise InvalidRecord("task", f"is not the key of the row's task, which is {task.key}")
    return task


def _read_json(name: str, row: dict[str, Any]) -> Any:
    text = row.pop(name)
    if not isinstance(text, str):
        raise InvalidRecord(name, "is missing")
    try:
        return strict_json(text)
    except ValueError as error:
        raise InvalidRecord(name, f"is not JSON: {error}") from None


def _read_parts(items: list[Any]) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for index, item in enumerate(items):
        fields = Fields(item, f"reward_parts[{index}]")
        name = fields.take("name")
        if not isinstance(name, str):
            raise InvalidRecord(fields.name("name"), f"expected text, got {kind_of(name)}")
        if name in parts:
            raise InvalidRecord(fields.name("name"), f"{shorten(name)} appears twice")
        parts[name] = fields.take("value")
    return parts


# -- writing ------------------------------------------------------------------------------


def write(rows: Iterable[Outgoing], sink: BinaryIO) -> None:
    """Write rows, one row group at a time."""
    pa, pq = _pyarrow()
    schema = _schema(pa)
    writer = pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True)
    try:
        for group in _groups(rows):
            writer.write_batch(pa.RecordBatch.from_pylist(group, schema=schema))
        writer.close()
    finally:
        writer.is_open = False  # its destructor would finish a failed file as if it were whole


def _groups(rows: Iterable[Outgoing]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        group.append(_row_to_columns(row))
        size += 13 * row.trajectory.tokens.size + sum(len(s.text) for s in row.trajectory.segments)
        if len(group) == _GROUP_ROWS or size > _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _row_to_columns(row: Outgoing) -> dict[str, Any]:
    t, run = row.trajectory, row.runs[0]
    task = plain.task_to_plain(row.task)
    columns: dict[str, Any] = plain.trajectory_to_plain(t)
    for segment in columns["segments"]:
        for name, empty in (("calls", []), ("call_id", ""), ("name", "")):
            segment.setdefault(name, empty)
    columns |= {name: getattr(t, name) for name in _ARRAYS}
    columns |= {column: task[name] for column, name in _TASK.items()}
    columns["reward_parts"] = [{"name": k, "value": v} for k, v in t.reward.parts.items()]
    columns["extra"] = canonical_json(dict(t.extra))
    columns["run_seed"], columns["run_config"] = run.seed, canonical_json(dict(run.config))
    return columns

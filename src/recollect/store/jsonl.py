"""Recollect's own JSON lines: everything an export holds, readable, exact to the last bit.

The first line is the header. Each other line is one record, spelled as canonical JSON:

    {"format":"recollect","version":1}
    {"config":{},"id":"r1","seed":0,"type":"run"}
    {"environment":"desk:airline","id":"t1",…,"key":"5f…","type":"task"}
    {"id":"0c…","logprobs":[-0.25,-1.5],"sampled":[[2,4]],"tokens":[5,9,7,2],…,"type":"trajectory"}

A record comes after those it refers to. Importing a file and exporting it again gives the
same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from recollect.canonical import canonical_json
from recollect.errors import BadFile, InvalidRecord
from recollect.errors.extras import update_command
from recollect.store import plain
from recollect.store.arrays import (
    Arrays,
    floats_from,
    floats_to_list,
    mask_from,
    spans_to_list,
    tokens_from,
)
from recollect.store.fields import Fields, nearest, shorten
from recollect.store.incoming import BadLine, Incoming, Limits
from recollect.store.lines import Line, convert, read_lines
from recollect.store.outgoing import Outgoing
from recollect.trajectory import Floats, Trajectory

FORMAT = "recollect"
VERSION = 1
_LONGEST_HEADER = 1000
_HEADER: plain.Plain = {"format": FORMAT, "version": VERSION}


# -- reading ------------------------------------------------------------------------------


def is_header(line: bytes) -> bool:
    """Tell whether a line is the first line of this format, of whatever version."""
    if len(line) > _LONGEST_HEADER:
        return False
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("format") == FORMAT


def read(path: Path, file: BufferedReader, limits: Limits) -> Iterator[Incoming | BadLine]:
    """Read a file; BadFile where it does not begin with a header that is known here."""
    lines = read_lines(path, file, limits)
    first = next(lines, None)
    if first is None:
        raise BadFile(path, "it is empty")
    _check_header(path, first)
    return convert(lines, limits, lambda fields, line: _read_line(fields, line, limits))


def _check_header(path: Path, line: Line) -> None:
    if line.data is None or not is_header(line.data):
        why = "it does not begin with Recollect's header line"
        raise BadFile(path, why, f"The first line must be {canonical_json(_HEADER)}")
    version = json.loads(line.data).get("version")
    if version != VERSION:
        why = f"it has format version {shorten(version)}; this Recollect reads version {VERSION}"
        raise BadFile(path, why, f"Update Recollect with: {update_command()}")


def _read_line(fields: Fields, line: Line, limits: Limits) -> Incoming | None:
    if fields.take("format", None) == FORMAT:
        return None  # the header of another file, put behind this one with cat
    kind = fields.take("type")
    if not isinstance(kind, str) or kind not in _READERS:
        hint = nearest(kind, list(_READERS)) if isinstance(kind, str) else ""
        guess = f"; did you mean {hint!r}?" if hint else ""
        problem = f"{shorten(kind)} is not one of {', '.join(_READERS)}{guess}"
        raise InvalidRecord("type", problem)
    incoming = _READERS[kind](fields, line, limits)
    fields.refuse_rest()
    return incoming


def _read_run(fields: Fields, line: Line, limits: Limits) -> Incoming:
    return Incoming(line.number, line.size, runs=(plain.run_from(fields),))


def _read_task(fields: Fields, line: Line, limits: Limits) -> Incoming:
    key = fields.take("key", None)
    task = plain.task_from(fields)
    if key is not None and key != task.key:
        raise InvalidRecord("key", f"{shorten(key)} is not the key of this task ({task.key})")
    return Incoming(line.number, line.size, tasks=(task,))


def _read_note(fields: Fields, line: Line, limits: Limits) -> Incoming:
    return Incoming(line.number, line.size, notes=(plain.note_from(fields),))


def _read_link(fields: Fields, line: Line, limits: Limits) -> Incoming:
    return Incoming(line.number, line.size, links=(plain.link_from(fields),))


def _read_trajectory(fields: Fields, line: Line, limits: Limits) -> Incoming:
    tokens = tokens_from("tokens", fields.items("tokens"))
    sampled = mask_from("sampled", fields.items("sampled"), tokens.size)
    arrays = Arrays(
        tokens, sampled, _read_floats(fields, "logprobs"), _read_floats(fields, "entropies")
    )
    trajectory = plain.trajectory_from(fields, arrays, limits)
    return Incoming(line.number, line.size, trajectories=(trajectory,))


def _read_floats(fields: Fields, member: str) -> Floats | None:
    values = fields.optional_items(member)
    return None if values is None else floats_from(member, values)


_READERS: Mapping[str, Callable[[Fields, Line, Limits], Incoming]] = {
    "run": _read_run,
    "task": _read_task,
    "trajectory": _read_trajectory,
    "note": _read_note,
    "link": _read_link,
}


# -- writing ------------------------------------------------------------------------------


def write(rows: Iterable[Outgoing], sink: BinaryIO) -> None:
    """Write the header and every row, each after the records it refers to, these once."""
    sink.write(_spell(_HEADER))
    written: set[str] = set()
    for row in rows:
        for kind, key, value in _before(row):
            if f"{kind} {key}" not in written:
                written.add(f"{kind} {key}")
                sink.write(_spell({"type": kind, **value}))
        sink.write(_spell({"type": "trajectory", **_trajectory_to_plain(row.trajectory)}))
        for link in row.links:
            sink.write(_spell({"type": "link", **plain.link_to_plain(link)}))


def _before(row: Outgoing) -> Iterator[tuple[str, str, plain.Plain]]:
    for run in row.runs:
        yield "run", run.id, plain.run_to_plain(run)
    yield "task", row.task.key, {"key": row.task.key, **plain.task_to_plain(row.task)}
    for note in row.notes:
        yield "note", note.id, plain.note_to_plain(note)


def _trajectory_to_plain(t: Trajectory) -> plain.Plain:
    numbers: plain.Plain = {
        "tokens": t.tokens.tolist(),
        "sampled": spans_to_list(t.sampled),
        "logprobs": None if t.logprobs is None else [*floats_to_list(t.logprobs)],
        "entropies": None if t.entropies is None else [*floats_to_list(t.entropies)],
    }
    return plain.trajectory_to_plain(t) | numbers


def _spell(value: plain.Plain) -> bytes:
    return canonical_json(value).encode("utf-8") + b"\n"

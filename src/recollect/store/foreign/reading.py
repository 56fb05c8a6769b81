"""Reading the files of other projects, record by record, through one door."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from recollect.errors import BadFile, InvalidRecord
from recollect.store.fields import Fields
from recollect.store.foreign.sampler import SampledBy
from recollect.store.foreign.tau2 import row_of_tau2, simulations_of
from recollect.store.foreign.trl import read_trl, row_of_trl
from recollect.store.foreign.verifiers import row_of_verifiers
from recollect.store.foreign.verl import row_of_verl
from recollect.store.incoming import BadLine, Incoming, Limits, bad_line
from recollect.store.lines import Line, convert, parse, read_lines
from recollect.store.messages import Occurrences, Unsaid, read_row

FOREIGN = ("trl", "verl", "tau2", "verifiers")
# A whole document is parsed at once; results of a large evaluation are some hundred megabytes.
_MOST_BYTES = 2**30
_MOST_VALUES = 200_000_000

_Convert = Callable[[Fields, "SampledBy | None"], dict[str, Any]]
_LINES: dict[str, _Convert] = {"verl": row_of_verl, "verifiers": row_of_verifiers}


def read_foreign(
    format_: str,
    path: Path,
    file: BufferedReader,
    limits: Limits,
    unsaid: Unsaid,
    sampled: SampledBy | None,
) -> Iterator[Incoming | BadLine]:
    """Read a file of another project."""
    if format_ in _LINES:
        turn, seen = _LINES[format_], Occurrences()
        lines = read_lines(path, file, limits)
        return convert(
            lines,
            limits,
            lambda fields, line: read_row(
                Fields(turn(fields, sampled)), line, limits, unsaid, seen
            ),
        )
    if format_ == "trl":
        found: Iterator[dict[str, Any]] = read_trl(path)
        return _documents(found, lambda fields: row_of_trl(fields, sampled), limits, unsaid)
    document = _document(path, file, limits)
    try:
        entries = simulations_of(document)
        first = list(entries)
    except InvalidRecord as error:
        why = f"it is not tau2's results ({error.field}: {error.problem})"
        raise BadFile(path, why, "Name a results.json that tau2 run wrote.") from error
    return _documents(
        iter(first), lambda fields: row_of_tau2(fields, unsaid.environment), limits, unsaid
    )


def _documents(
    entries: Iterator[dict[str, Any]],
    turn: Callable[[Fields], dict[str, Any]],
    limits: Limits,
    unsaid: Unsaid,
) -> Iterator[Incoming | BadLine]:
    """Read records that do not stand on lines; their numbers take the place of the lines'."""
    seen = Occurrences()
    for number, entry in enumerate(entries, start=1):
        try:
            row = Fields(turn(Fields(entry)))
            yield read_row(row, Line(number, b""), limits, unsaid, seen)
        except (InvalidRecord, RecursionError) as error:
            yield bad_line(number, error)


def _document(path: Path, file: BufferedReader, limits: Limits) -> Any:
    data = file.read(_MOST_BYTES + 1)
    whole = Limits(_MOST_BYTES, limits.max_depth, _MOST_VALUES, limits.max_messages)
    try:
        return parse(Line(1, data), whole)
    except InvalidRecord as error:
        raise BadFile(path, f"it is not one JSON document ({error.problem})") from error

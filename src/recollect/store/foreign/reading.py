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

_Convert = Callable[[Fields], dict[str, Any]]


def read_foreign(
    format_: str,
    path: Path,
    file: BufferedReader,
    limits: Limits,
    unsaid: Unsaid,
    sampled: SampledBy | None,
) -> Iterator[Incoming | BadLine]:
    """Read a file of another project; `sampled` is for verifiers' alone."""
    environment = unsaid.environment
    by_line: dict[str, _Convert] = {
        "verl": row_of_verl,
        "verifiers": lambda fields: row_of_verifiers(fields, sampled, environment),
    }
    if format_ in by_line:
        turn, seen = by_line[format_], Occurrences()
        lines = read_lines(path, file, limits)
        return convert(
            lines,
            limits,
            lambda fields, line: read_row(Fields(turn(fields)), line, limits, unsaid, seen),
        )
    if format_ == "trl":
        return _documents(read_trl(path), row_of_trl, limits, unsaid)
    document = _document(path, file, limits)
    try:
        entries = simulations_of(document)
        first = list(entries)
    except InvalidRecord as error:
        why = f"it is not tau2's results ({error.field}: {error.problem})"
        raise BadFile(path, why, "Name a results.json that tau2 run wrote.") from error
    return _documents(iter(first), lambda fields: row_of_tau2(fields, environment), limits, unsaid)


def _documents(
    entries: Iterator[dict[str, Any]],
    turn: _Convert,
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
    try:
        data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadFile(path, f"it cannot be read ({error.strerror or error})") from error
    whole = Limits(_MOST_BYTES, limits.max_depth, _MOST_VALUES, limits.max_messages)
    try:
        return parse(Line(1, data), whole)
    except InvalidRecord as error:
        raise BadFile(path, f"it is not one JSON document ({error.problem})") from error

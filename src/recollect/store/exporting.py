"""Exporting rows of a store to a file or a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from recollect.errors import BadQuery, ExportFailed
from recollect.store import jsonl, messages, parquet
from recollect.store.base import StoreReader
from recollect.store.fields import nearest
from recollect.store.outgoing import Listing, OutgoingRows, Skipped
from recollect.store.publishing import publishing, streaming
from recollect.store.records import Query

__all__ = ["FORMATS", "ExportReport", "Skipped", "export_file"]

_WRITERS: dict[str, Callable[[OutgoingRows, BinaryIO, bool], None]] = {
    "jsonl": lambda rows, sink, _: jsonl.write(rows, sink),
    "messages": messages.write,
    "parquet": lambda rows, sink, _: parquet.write(rows, sink),
}
FORMATS = tuple(_WRITERS)


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote. `skipped` names the first 100 rows left out, `skipped_total` counts."""

    rows: int
    bytes: int
    skipped: tuple[Skipped, ...]
    skipped_total: int


def export_file(
    reader: StoreReader,
    target: Path | str | None,
    *,
    format: str,
    query: Query,
    stream: BinaryIO | None = None,
    overwrite: bool = False,
    tokens: bool = True,
    listing: Listing | None = None,
) -> ExportReport:
    """Export the rows of a query to `target`, or to `stream` where the target is None.

    - The target appears whole or not at all: it is written beside itself under another name,
      flushed to the disk, then renamed. A file that is there already is kept unless
      `overwrite`.
    - Rows are read page by page in order of arrival, so memory is bounded and a writer is
      never held up. A stream gets what was read until something failed.
    - Rows that are damaged, or vanish meanwhile, are left out and named in the report.

    `listing` lists the rows where no single query does. `tokens=False` leaves token ids and
    log-probs out of messages; such rows come back as demos.
    """
    if format not in FORMATS:
        guess = nearest(format, FORMATS)
        hint = f"Did you mean {guess!r}? " if guess else ""
        known = f"{hint}Known: {', '.join(FORMATS)}."
        raise ExportFailed(target or "a stream", f"{format!r} is not a format", known)
    if not tokens and format != "messages":
        raise ExportFailed(target or "a stream", "only messages can leave out tokens")
    if query.fenced:
        why = "fenced rows are not part of the store any more and cannot be exported"
        raise BadQuery(reader.path, why, "Export rows that are not fenced.")
    if (target is None) == (stream is None):
        raise ValueError("give a target or a stream, and not both")
    rows = OutgoingRows(
        reader, listing or partial(reader.rows, query), with_notes=format == "jsonl"
    )
    opened = publishing(Path(target or ""), overwrite) if stream is None else streaming(stream)
    with opened as sink:
        _WRITERS[format](rows, cast(BinaryIO, sink), tokens)
    return ExportReport(rows.count, sink.written, tuple(rows.skipped), rows.skipped_total)

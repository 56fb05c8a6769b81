"""`recollect pool export`: copy trajectories out of a store."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.failure import FINDINGS
from recollect.cli.filters import Filters, MoreFilters
from recollect.cli.option_groups import with_groups
from recollect.cli.output import count, remark, say, size, waiting, write_json
from recollect.cli.overwriting import OverwriteOption, naming_overwrite
from recollect.cli.store_option import (
    DEFAULT,
    EXITS_WITH_FINDINGS,
    JsonOption,
    StoreOption,
    examples,
    store_path,
)
from recollect.cli.untrusted import visible

if TYPE_CHECKING:
    from recollect.store.exporting import ExportReport

EPILOG = examples(
    "recollect pool export good.jsonl --success --domain airline",
    "recollect pool export chats.jsonl --format messages --overwrite",
    "recollect pool export pool.parquet --max-age 100",
    "recollect pool export - --run alpha | gzip > alpha.jsonl.gz",
    exits=EXITS_WITH_FINDINGS,
)


class Format(str, Enum):
    """What can be written."""

    JSONL = "jsonl"
    MESSAGES = "messages"
    PARQUET = "parquet"


@with_groups
def export(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The file to write; - is stdout.")
    ],
    filters: Filters,
    more: MoreFilters,
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="Recollect's JSON lines (exact, can be imported again), OpenAI messages or "
            "Parquet. Unless given: Parquet for a name that ends so, else JSON lines.",
        ),
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens/--no-tokens", help="Whether messages carry token ids.")
    ] = True,
    overwrite: OverwriteOption = False,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Copy trajectories out of the store; the same filters as `ls`.

    The target appears whole or not at all. Damaged rows are left out and named (exit code 1).
    With --json: a report, on stderr where the target is stdout.
    """
    from recollect.cli.selection import select
    from recollect.store import open_reader
    from recollect.store.exporting import export_file
    from recollect.store.records import Query

    chosen = format_ or (Format.PARQUET if target.endswith(".parquet") else Format.JSONL)
    if not tokens and chosen is not Format.MESSAGES:
        raise typer.BadParameter("--no-tokens goes with --format messages")
    to_stdout = target == "-"
    with open_reader(store_path(store)) as reader:
        selection = select(reader, filters, more)
        with waiting(f"exporting to {target}"), naming_overwrite():
            report = export_file(
                reader,
                None if to_stdout else Path(target),
                format=chosen.value,
                query=Query(),
                listing=lambda after, limit: selection.page(after, limit, False),
                stream=sys.stdout.buffer if to_stdout else None,
                overwrite=overwrite,
                tokens=tokens,
            )
    _report(target, chosen, report, as_json, to_stdout)
    if report.skipped_total:
        raise typer.Exit(FINDINGS)


def _report(
    target: str, chosen: Format, report: ExportReport, as_json: bool, to_stdout: bool
) -> None:
    if as_json:
        from recollect.cli.documents import document

        facts = {"target": target, "format": chosen.value, "report": document(report)}
        write_json(facts, err=to_stdout)
        return
    for skipped in report.skipped:
        remark(visible(f"left out {skipped.id}: {skipped.reason}"))
    if report.skipped_total > len(report.skipped):
        remark(f"... and {report.skipped_total - len(report.skipped):,} more.")
    left = f", {report.skipped_total:,} left out" if report.skipped_total else ""
    tell = remark if to_stdout else say
    rows = count(report.rows, "trajectory", "trajectories")
    tell(f"{rows} written to {visible(target)} ({chosen.value}, {size(report.bytes)}){left}.")

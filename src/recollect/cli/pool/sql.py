"""`recollect pool sql`: ask a store anything, without being able to change it."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from recollect.cli.output import Column, remark, write_json, write_table
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path
from recollect.cli.untrusted import safe_cell, visible

EPILOG = examples(
    'recollect pool sql "SELECT domain, avg(reward) FROM pool GROUP BY domain"',
    'recollect pool sql "SELECT id, uses FROM pool ORDER BY uses DESC" --limit 10 --csv',
    'recollect pool sql "SELECT name, sql FROM sqlite_schema"',
)


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT. The view `pool` has names in it.")],
    limit: Annotated[int, typer.Option(help="Most rows to print.", min=1, metavar="N")] = 1000,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV; text that could be a formula gets a quote.")
    ] = False,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Run one read-only SQL query, for at most 30 seconds.

    With --json: {"columns": [...], "rows": [{...}], "more": true or false}. Blobs are shown in
    hexadecimal.
    """
    from recollect.store import open_reader

    if as_csv and as_json:
        raise typer.BadParameter("choose one of --csv and --json")
    with open_reader(store_path(store)) as reader:
        names, rows = reader.sql(query, limit + 1)
    more, rows = len(rows) > limit, rows[:limit]
    names = _distinct(names)
    if as_json:
        found = [dict(zip(names, map(_value, row), strict=True)) for row in rows]
        write_json({"columns": names, "rows": found, "more": more})
        return
    if as_csv:
        _write_csv(names, rows)
    else:
        columns = [_column(name, [row[i] for row in rows]) for i, name in enumerate(names)]
        write_table(columns, [[_text(value) for value in row] for row in rows])
    if more:
        remark(f"Only the first {limit:,} rows are shown; --limit shows more.")


def _write_csv(names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write CSV; exactly what is stored, apart from formulas, unless a terminal would obey it."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    is_seen = sys.stdout.isatty()
    for row in [names, *rows]:
        texts = (visible(v) if is_seen and isinstance(v, str) else _value(v) for v in row)
        writer.writerow([safe_cell(text) if isinstance(text, str) else text for text in texts])


def _distinct(names: Sequence[str]) -> list[str]:
    """Tell columns of the same name apart: id, id_2, id_3."""
    taken: list[str] = []
    for name in names:
        number, unique = 1, name
        while unique in taken:
            number += 1
            unique = f"{name}_{number}"
        taken.append(unique)
    return taken


def _value(value: object) -> object:
    """Turn what a database answers into what JSON has: PostgreSQL knows dates and much more."""
    if isinstance(value, bytes | bytearray | memoryview):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): _value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _text(value: object) -> str:
    return "" if value is None else str(_value(value))


def _column(name: str, values: Sequence[object]) -> Column:
    numeric = bool(values) and all(isinstance(value, int | float | None) for value in values)
    return Column(name, right=numeric, narrow="keep" if numeric else "wrap")

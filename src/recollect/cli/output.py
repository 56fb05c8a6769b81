"""Where output goes: rich tables on a terminal, plain aligned text in a pipe, JSON on demand.

Nothing that is printed here is taken for markup, and text from a store is made visible first
(`recollect.cli.untrusted`).
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import typer

from recollect.cli.untrusted import visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 100
_SHORT = 10  # characters of a hashed id that a terminal shows, if they tell rows apart
_HASHED = re.compile(r"[0-9a-f]{32}\Z")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, and how it behaves when the terminal is narrow."""

    title: str
    right: bool = False
    # In a pipe, every cell is whole. "stack" has its intervals, in brackets, on lines of their own.
    narrow: Literal["keep", "cut", "wrap", "stack"] = "keep"
    style: str = ""
    wide: bool = False  # left out where the terminal has fewer than 100 columns


def is_terminal() -> bool:
    """Tell whether a person is looking; RECOLLECT_PLAIN=1 or a dumb terminal says no."""
    plain = os.environ.get("RECOLLECT_PLAIN", "") not in ("", "0")
    return sys.stdout.isatty() and not plain and os.environ.get("TERM") != "dumb"


def shown_ids(ids: Sequence[str]) -> list[str]:
    """Shorten hashed ids on a terminal, if they stay apart; a pipe gets them whole."""
    if not is_terminal():
        return list(ids)
    short = [id_[:_SHORT] if _HASHED.match(id_) else id_ for id_ in ids]
    return short if len(set(short)) == len(set(ids)) else list(ids)


def console() -> Console:
    """Open the terminal, with nothing in the text interpreted."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def say(text: str = "") -> None:
    """Write one line of our own words to stdout."""
    typer.echo(text)


def say_prose(text: str) -> None:
    """Write sentences of our own to stdout: a terminal breaks them between words, not within."""
    if not is_terminal():
        return say(text)
    from rich.text import Text

    console().print(Text(text))


def remark(text: str) -> None:
    """Write one line about the output, not part of it, to stderr."""
    typer.echo(text, err=True)


def write_json(document: object, *, err: bool = False) -> None:
    """Write one JSON document on one line; numbers that JSON lacks become null."""
    text = json.dumps(_plain(document), ensure_ascii=False, allow_nan=False)
    typer.echo(visible_json(text), err=err)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def write_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Write a table of texts, titles included, which may come from a store."""
    columns = [replace(column, title=visible(column.title)) for column in columns]
    cells = [[visible(cell) for cell in row] for row in rows]
    if is_terminal():
        _write_rich(columns, cells)
    else:
        _write_aligned(columns, cells)


def _write_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    place = console()
    shown = [i for i, column in enumerate(columns) if place.width >= _WIDE or not column.wide]
    whole = [_width(columns[i].title, [row[i] for row in rows]) for i in shown]
    narrow = sum(whole) + 2 * len(whole) > place.width

    def stacked(text: str, column: Column) -> str:
        return text.replace(" [", "\n[") if narrow and column.narrow == "stack" else text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for i in shown:
        column = columns[i]
        table.add_column(
            stacked(column.title, column),
            justify="right" if column.right else "left",
            style=column.style,
            no_wrap=column.narrow not in ("wrap", "stack"),
            overflow="ellipsis" if column.narrow == "cut" else "fold",
            min_width=_width(column.title, [row[i] for row in rows])
            if column.narrow == "keep"
            else None,
        )
    for row in rows:
        table.add_row(*(Text(stacked(row[i], columns[i])) for i in shown))
    place.print(table)


def _width(title: str, cells: Sequence[str]) -> int:
    from rich.cells import cell_len

    return max(cell_len(text) for text in [title, *cells])


def _write_aligned(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    titles = [column.title for column in columns]
    widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(columns))]
    for row in [titles, *rows]:
        cells = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        )
        typer.echo("  ".join(cells).rstrip())


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that work goes on, on a terminal and on stderr only."""
    if not (sys.stderr.isatty() and is_terminal()):
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    place = Console(stderr=True, highlight=False, markup=False, emoji=False)
    parts = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*parts, console=place, transient=True) as progress:
        progress.add_task(what, total=None)
        yield


def count(number: int, noun: str, plural: str = "") -> str:
    """Spell a number of things: 1 row, 2,000 rows."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(number: int) -> str:
    """Spell a number of bytes in the largest decimal unit below it."""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def decimal(value: float | None) -> str:
    """Spell a number for a table: at most four digits after the point, a dash for none."""
    return "-" if value is None else f"{value:.4g}"

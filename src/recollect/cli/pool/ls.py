"""`recollect pool ls`: list trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.filters import Filters, MoreFilters
from recollect.cli.option_groups import with_groups
from recollect.cli.output import (
    Column,
    count,
    decimal,
    remark,
    shown_ids,
    write_json,
    write_table,
)
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path

if TYPE_CHECKING:
    from recollect.cli.selection import Selection
    from recollect.store.records import Page, Row
    from recollect.types import RunId, Task, TaskKey

EPILOG = examples(
    "recollect pool ls",
    "recollect pool ls --domain airline --failed --oldest -n 50",
    "recollect pool ls --status any --min-uses 1 --json",
)


@with_groups
def ls(
    filters: Filters,
    more: MoreFilters,
    fenced: Annotated[
        bool, typer.Option("--fenced", help="Rows that a resumed run set aside, instead.")
    ] = False,
    oldest: Annotated[
        bool, typer.Option("--oldest/--newest", help="Which end to begin at.")
    ] = False,
    limit: Annotated[
        int, typer.Option("-n", "--limit", help="Rows on a page.", min=1, metavar="N")
    ] = 20,
    after: Annotated[
        int | None,
        typer.Option(help="Go on after this seq, as the end of a page says.", metavar="SEQ"),
    ] = None,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """List trajectories, newest first, one page at a time.

    With --json: {"rows": [...], "next": SEQ or null}.
    """
    from recollect.cli.documents import row_document
    from recollect.cli.selection import newest_versions, select
    from recollect.store import open_reader

    with open_reader(store_path(store)) as reader:
        selection = select(reader, filters, more, fenced)
        page = selection.page(after, limit, newest_first=not oldest)
        tasks = {key: reader.task(key) for key in {row.task for row in page.rows}}
        newest = newest_versions(reader) if page.rows else {}
        if as_json:
            rows = [row_document(row, tasks[row.task], age(row, newest)) for row in page.rows]
            write_json({"rows": rows, "next": page.next})
        elif page.rows:
            _write(page, tasks, newest)
        else:
            _explain_nothing(selection)


def age(row: Row, newest: dict[RunId, int]) -> int | None:
    """How many versions behind its run's newest policy a row is; None for a demo."""
    if row.policy_version is None or row.run not in newest:
        return None
    return max(0, newest[row.run] - row.policy_version)


def _write(page: Page, tasks: dict[TaskKey, Task], newest: dict[RunId, int]) -> None:
    columns = [
        Column("id", style="cyan"),
        Column("domain", narrow="cut", wide=True),
        Column("task", narrow="cut"),
        Column("run", narrow="cut"),
        Column("step", right=True, wide=True),
        Column("age", right=True),
        Column("origin"),
        Column("reward", right=True),
        Column("ok"),
        Column("tokens", right=True, wide=True),
        Column("uses", right=True),
        Column("status"),
    ]
    ids = shown_ids([row.id for row in page.rows])
    cells = [
        (
            *(id_, row.domain, tasks[row.task].id, row.run, str(row.step)),
            *("-" if (years := age(row, newest)) is None else str(years), row.origin.value),
            *(decimal(row.reward), "yes" if row.success else "no", str(row.tokens)),
            *(str(row.uses), _state(row)),
        )
        for id_, row in zip(ids, page.rows, strict=True)
    ]
    write_table(columns, cells)
    if page.next is not None:
        remark(f"More rows follow: the same command with --after {page.next}")


def _state(row: Row) -> str:
    parts = [row.status.value, *(["pinned"] if row.pinned else [])]
    return " ".join([*parts, *(["fenced"] if row.fenced else [])])


def _explain_nothing(selection: Selection) -> None:
    from recollect.store.records import Query

    reader = selection.reader
    live, all_ = reader.count(Query()), reader.count(Query(status=None))
    remark(
        f"No rows match. The store has {count(live, 'live row')}"
        + (f" and {all_ - live:,} others (--status any)." if all_ > live else ".")
    )

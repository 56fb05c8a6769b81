"""`recollect pool prune`: remove trajectories for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.byte_size import parse_size
from recollect.cli.filters import Filters
from recollect.cli.option_groups import with_groups
from recollect.cli.output import Column, count, say, size, write_json, write_table
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path
from recollect.cli.untrusted import visible
from recollect.errors import RecollectError

if TYPE_CHECKING:
    from recollect.cli.pruning import Plan
    from recollect.store.address import Place
    from recollect.store.records import Reclaimed

EPILOG = examples(
    "recollect pool prune --max-bytes 2GiB",
    "recollect pool prune --max-rows 100000 --max-age 200 --yes --compact",
    "recollect pool prune --domain airline --failed --yes",
    "recollect pool prune --evicted --fenced --yes",
)


class NothingChosen(RecollectError):
    """`prune` was asked to remove nothing in particular."""

    def __init__(self) -> None:
        super().__init__(
            "Nothing was chosen, so nothing was removed.",
            "Give a limit (--max-rows, --max-bytes, --max-age), a filter, --evicted or --fenced.",
        )


@dataclass(frozen=True)
class LimitOptions:
    """What may stay of the rows that the filters choose."""

    max_rows: Annotated[
        int | None, typer.Option(help="Limit: keep at most this many rows.", min=0, metavar="N")
    ] = None
    max_bytes: Annotated[
        int | None,
        typer.Option(
            help="Limit: keep at most this much, in bytes of trajectories: 500MB, 2GiB.",
            metavar="SIZE",
            parser=parse_size,
        ),
    ] = None
    max_age: Annotated[
        int | None,
        typer.Option(
            help="Limit: keep rows up to this age, which is the newest policy version of the "
            "row's run minus the row's own. Rows without an age stay.",
            min=0,
            metavar="N",
        ),
    ] = None
    older_than_version: Annotated[
        int | None,
        typer.Option(
            help="Limit: rows sampled by an earlier policy version go.", min=0, metavar="N"
        ),
    ] = None


@with_groups
def prune(
    filters: Filters,
    limit_options: LimitOptions,
    evicted: Annotated[
        bool, typer.Option("--evicted", help="Remove rows that budgets have evicted before.")
    ] = False,
    fenced: Annotated[
        bool, typer.Option("--fenced", help="Remove rows that a resumed run set aside.")
    ] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Shrink the file afterwards (rewrites it).")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do it; without this, only say what would go.")
    ] = False,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Remove trajectories for good. Without --yes it only says what would go.

    Filters choose rows. Without a limit all of those go; with limits, those that exceed one, the
    oldest first. Pinned rows never go. Rows evicted earlier go too, unless --compact stands alone:
    a run resumed from an old checkpoint can then no longer draw them.
    """
    from recollect.cli.pruning import Limits, carry_out, make_plan
    from recollect.cli.selection import select
    from recollect.store import open_reader, open_store

    given = limit_options
    limits = Limits(given.max_rows, given.max_bytes, given.max_age, given.older_than_version)
    choosing = limits.given or bool(filters.words())
    if not (choosing or evicted or fenced or compact):
        raise NothingChosen
    path = store_path(store)
    removed = None
    with open_reader(path) as reader:  # refuses a wrong or missing file; makes nothing
        if not yes:
            chosen = select(reader, filters) if choosing else None
            plan = make_plan(reader, chosen, limits, evicted, fenced)
    if yes:
        with open_store(path) as writer:
            chosen = select(writer, filters) if choosing else None
            plan = make_plan(writer, chosen, limits, evicted, fenced)
            removed = carry_out(writer, plan, fenced, compact)
    if as_json:
        _write_json(path, plan, removed)
    else:
        _write(plan, filters, removed, compact)


def _write_json(path: Place, plan: Plan, removed: Reclaimed | None) -> None:
    total = plan.total
    write_json(
        {
            "store": str(path),
            "done": removed is not None,
            "rows": total.rows if removed is None else removed.trajectories,
            "bytes": total.bytes if removed is None else removed.bytes,
            "evicted_before": plan.evicted.rows,
            "fenced": plan.fenced.rows,
            "pinned_kept": plan.pinned,
            "ids": plan.ids,
        }
    )


def _write(plan: Plan, filters: Filters, removed: Reclaimed | None, compact: bool) -> None:
    parts = [(f"domain {name}", tally) for name, tally in sorted(plan.domains.items())]
    parts += [("evicted before", plan.evicted), ("fenced", plan.fenced)]
    rows = [(name, f"{tally.rows:,}", size(tally.bytes)) for name, tally in parts if tally.rows]
    if rows:
        columns = (Column("what goes"), Column("rows", right=True), Column("bytes", right=True))
        write_table(columns, rows)
    if words := filters.words():
        say(f"Chosen: {visible(', '.join(words))}.")
    if plan.pinned:
        verbs = "was due, and is kept" if plan.pinned == 1 else "were due, and are kept"
        say(f"{count(plan.pinned, 'pinned row')} {verbs}.")
    if removed is not None:
        say(f"Removed {count(removed.trajectories, 'row')}, {size(removed.bytes)}.")
        if removed.trajectories and not compact:
            say("The file keeps its size and reuses the room; --compact --yes shrinks it.")
    elif plan.total.rows or compact:
        total = plan.total
        say(f"This would remove {count(total.rows, 'row')}, {size(total.bytes)}.")
        say("Nothing was changed. To do it, give the same command with --yes.")
    else:
        say("Nothing would go.")

"""`recollect notes ls`: list notes."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from recollect.cli.notes.spelling import COLUMNS, note_document, points
from recollect.cli.output import count, decimal, remark, shown_ids, write_json, write_table
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path
from recollect.telemetry.spelling import percent

EPILOG = examples(
    "recollect notes ls --store runs/demo-1",
    "recollect notes ls --status any --sort gain",
    "recollect notes ls --workspace airline --json",
)


class StatusChoice(str, Enum):
    """Which notes to list."""

    LIVE = "live"
    RETIRED = "retired"
    BANNED = "banned"
    ANY = "any"


class Order(str, Enum):
    """What comes first."""

    NEWEST = "newest"
    ROWS = "rows"
    GAIN = "gain"


def ls(
    workspace: Annotated[
        str | None, typer.Option("--workspace", "-w", help="One shelf only.", metavar="NAME")
    ] = None,
    status: Annotated[StatusChoice, typer.Option(help="Which notes.")] = StatusChoice.LIVE,
    sort: Annotated[Order, typer.Option(help="What comes first.")] = Order.NEWEST,
    limit: Annotated[
        int, typer.Option("-n", "--limit", help="Notes to list.", min=1, metavar="N")
    ] = 20,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """List notes with what they did: attempts with each, success rates with it and without any.

    The rates without are those of attempts in the same groups that had no note. gain is the
    difference in percentage points.
    """
    from recollect.notes.credit import Credit
    from recollect.notes.store_bank import StoreBank
    from recollect.store import open_reader
    from recollect.types import NoteStatus

    with open_reader(store_path(store)) as reader:
        bank = StoreBank(reader)
        wanted = None if status is StatusChoice.ANY else NoteStatus(status.value)
        found = bank.notes(workspace, wanted)[::-1]
        credits_ = bank.credits()
        credit = {note.id: credits_.get(note.id, Credit()) for note in found}
        if sort is Order.ROWS:
            found.sort(key=lambda note: -credit[note.id].rows)
        elif sort is Order.GAIN:
            gains = {note.id: credit[note.id].gain for note in found}
            found.sort(key=lambda note: (gains[note.id] is None, -(gains[note.id] or 0.0)))
        states = {note.id: bank.status(note.id) for note in found}
        every = len(bank.notes())
    listed = found[:limit]
    if as_json:
        write_json([note_document(note, states[note.id], credit[note.id]) for note in listed])
        return
    if not listed:
        remark(f"No notes match. The store has {count(every, 'note')} of any status.")
        return
    cells = []
    for id_, note in zip(shown_ids([note.id for note in listed]), listed, strict=True):
        mine = credit[note.id]
        rates = (percent(mine.rate), percent(mine.bare_rate), points(mine.gain))
        kind = str(note.data.get("kind", "written"))
        facts = (id_, kind, states[note.id].value, decimal(note.trust), str(mine.rows))
        cells.append((*facts, *rates, note.when_to_use, note.content))
    write_table(COLUMNS, cells)
    if len(found) > limit:
        remark(f"{len(found) - limit:,} more: --limit {len(found)}")

"""`recollect notes show`: one note, its credit, where it comes from and what it guided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.notes.spelling import note_document, points
from recollect.cli.output import count, decimal, remark, say, shown_ids, write_json
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path
from recollect.cli.untrusted import visible, visible_lines
from recollect.telemetry.spelling import percent

if TYPE_CHECKING:
    from recollect.notes.credit import Credit

EPILOG = examples(
    "recollect notes show 3f2a --store runs/demo-1",
    "recollect notes show 3f2a --guided | xargs recollect pool ban",
)


def show(
    note: Annotated[str, typer.Argument(metavar="ID", help="The note, or the start of its id.")],
    guided: Annotated[
        bool,
        typer.Option(
            "--guided",
            help="Only the ids of all trajectories that had it: one a line, or a list with --json.",
        ),
    ] = False,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Show a note: its text, what it did, what it was learnt from, and what it guided.

    The intervals are 95 %: Wilson's for a rate, Newcombe's for the gain.
    """
    from recollect.notes.store_bank import StoreBank
    from recollect.store import open_reader
    from recollect.types import LinkKind

    with open_reader(store_path(store)) as reader:
        bank = StoreBank(reader)
        found = bank.get(bank.resolve(note))
        status, credit = bank.status(found.id), bank.credit(found.id)
        marks = reader.note_marks(found.id)
        links = reader.links(note=found.id)
    rows = [link.trajectory for link in links if link.kind is LinkKind.GUIDED]
    sources = [link.trajectory for link in links if link.kind is LinkKind.SOURCE]
    if guided:
        if as_json:
            write_json(rows)
            return
        for id_ in rows:
            say(id_)
        return
    if as_json:
        from recollect.cli.documents import document

        facts = note_document(found, status, credit)
        write_json(facts | {"guided": rows, "sources": sources, "marks": document(marks)})
        return
    say(f"note {found.id}  {status.value}, workspace {visible(found.workspace)}")
    for line in _credit_lines(credit):
        say(line)
    author = visible(found.author) or "nobody named"
    say(f"by {author}, trust {decimal(found.trust)}, {found.data.get('kind', 'written')}")
    if found.run is not None:
        say(f"since step {found.step} of {found.run}")
    for mark in marks:
        when = f"step {mark.step} of {mark.run}" if mark.run else "by hand"
        say(f"{mark.action.value}: {visible(mark.reason) or 'no reason given'} ({when})")
    say(f"learnt from {_listed(sources)}")
    say(f"guided {_listed(rows)}")
    say("\nwhen to use:")
    for line in visible_lines(found.when_to_use):
        say(f"  {line}")
    say("content:")
    for line in visible_lines(found.content):
        say(f"  {line}")
    if len(rows) > 3:
        remark("All that it guided: the same command with --guided")


def _credit_lines(credit: Credit) -> list[str]:
    if not credit.rows:
        return ["not used yet"]
    share = "" if credit.share is None else f", {percent(credit.share)} of all uses of notes"
    lines = [
        f"with it     {_rate(credit.wins, credit.rows, credit.interval)}{share}",
        f"without     {_rate(credit.bare_wins, credit.bare_rows, credit.bare_interval)}",
    ]
    if credit.gain is not None and credit.gain_interval is not None:
        low, high = credit.gain_interval
        lines.append(f"gain        {points(credit.gain)} points ({points(low)} to {points(high)})")
    return lines


def _rate(wins: int, rows: int, interval: tuple[float, float] | None) -> str:
    if interval is None:
        return "no attempts to compare with"
    low, high = interval
    return f"{percent(wins / rows)} of {count(rows, 'attempt')} ({percent(low)} to {percent(high)})"


def _listed(ids: Sequence[str]) -> str:
    shown = ", ".join(shown_ids(ids[:3]))
    total = count(len(ids), "trajectory", "trajectories")
    return f"{total}: {shown}{', ...' if len(ids) > 3 else ''}" if ids else "none that is known"

"""How notes and their credit are written, in tables and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.output import Column

if TYPE_CHECKING:
    from recollect.ledger import Note
    from recollect.notes.credit import Credit
    from recollect.types import NoteStatus

WorkspaceOption = Annotated[
    str, typer.Option("--workspace", "-w", help="The shelf of notes.", metavar="NAME")
]

COLUMNS = (
    Column("id", style="cyan"),
    Column("kind"),
    Column("status"),
    Column("trust", right=True, wide=True),
    Column("rows", right=True),
    Column("with", right=True),
    Column("without", right=True),
    Column("gain", right=True),
    Column("when to use", narrow="cut"),
    Column("content", narrow="cut", wide=True),
)


def points(gain: float | None) -> str:
    """Spell a difference of shares in percentage points, with its sign."""
    return "-" if gain is None else f"{100 * gain:+.0f}"


def credit_document(credit: Credit) -> dict[str, object]:
    """Describe credit with everything that follows from it."""
    from recollect.cli.documents import document

    counts = document(credit)
    assert isinstance(counts, dict)
    return counts | {
        "rate": credit.rate,
        "interval": credit.interval,
        "bare_rate": credit.bare_rate,
        "bare_interval": credit.bare_interval,
        "gain": credit.gain,
        "gain_interval": credit.gain_interval,
    }


def note_document(note: Note, status: NoteStatus, credit: Credit) -> dict[str, object]:
    """Describe a note as `--json` does."""
    from recollect.cli.documents import document

    facts = document(note)
    assert isinstance(facts, dict)
    return facts | {"status": status.value, "credit": credit_document(credit)}

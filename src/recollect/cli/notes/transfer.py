"""`recollect notes export` and `import`: notes from one store to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.failure import FINDINGS
from recollect.cli.output import count, remark, say, write_json
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

EXPORT_EPILOG = examples(
    "recollect notes export notes.jsonl --store runs/demo-1",
    "recollect notes export airline.jsonl --workspace airline --overwrite",
)
IMPORT_EPILOG = examples(
    "recollect notes import notes.jsonl --store bank.db",
    "recollect notes import theirs.jsonl --trust 0.5 --workspace trial",
    exits=EXITS_WITH_FINDINGS,
)
_SHOWN = 10  # bad lines that are told one by one


def export(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The file to write.")],
    workspace: Annotated[
        str | None, typer.Option("--workspace", "-w", help="One shelf only.", metavar="NAME")
    ] = None,
    overwrite: OverwriteOption = False,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Write live notes to a file of JSON lines, which appears whole or not at all."""
    from recollect.notes.files import write_notes
    from recollect.notes.store_bank import StoreBank
    from recollect.store import open_reader
    from recollect.types import NoteStatus

    with open_reader(store_path(store)) as reader:
        notes = StoreBank(reader).notes(workspace, NoteStatus.LIVE)
    with naming_overwrite():
        written = write_notes(notes, target, overwrite)
    if as_json:
        write_json({"target": str(target), "notes": written})
    else:
        say(f"{count(written, 'note')} written to {visible(str(target))}.")


def import_(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines with notes.")],
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", "-w", help="Put all on this shelf; default: as the file says."),
    ] = None,
    trust: Annotated[
        float,
        typer.Option(help="Trust them at most so far; notes.min_trust decides.", min=0, max=1),
    ] = 1.0,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Take notes from a file that `notes export` or `pool export` wrote.

    Notes that a workspace has already, in these words or nearly, banned ones included, are left
    out. Lines that cannot be used are named (exit code 1); the others are taken.
    """
    from recollect.notes.files import read_notes
    from recollect.notes.note import Draft
    from recollect.notes.store_bank import StoreBank
    from recollect.store import open_store

    read = read_notes(source, trust)
    shelves: dict[str, list[Draft]] = {}
    for shelf, draft in read.drafts:
        shelves.setdefault(shelf if workspace is None else workspace, []).append(draft)
    added = known = 0
    with open_store(store_path(store)) as writer:
        bank = StoreBank(writer)
        for shelf, drafts in shelves.items():
            done = bank.add(drafts, shelf)
            added, known = added + len(done.notes), known + done.duplicates
    if as_json:
        bad = [str(line) for line in read.bad]
        write_json({"added": added, "duplicates": known, "bad_lines": bad})
    else:
        for line in read.bad[:_SHOWN]:
            remark(visible(f"left out: {line}"))
        if len(read.bad) > _SHOWN:
            remark(f"... and {len(read.bad) - _SHOWN:,} more lines.")
        say(f"{count(added, 'note')} added, {known:,} known already, {len(read.bad):,} unusable.")
    if read.bad:
        raise typer.Exit(FINDINGS)

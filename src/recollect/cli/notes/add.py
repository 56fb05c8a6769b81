"""`recollect notes add`: write a note by hand."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from recollect.cli.notes.spelling import WorkspaceOption
from recollect.cli.output import say, write_json
from recollect.cli.stdin import read_stdin
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path

EPILOG = examples(
    'recollect notes add "Look the booking up before you cancel it." --when "cancel a booking"',
    "recollect notes add - --when refunds < lesson.txt",
)


def add(
    content: Annotated[str, typer.Argument(help="What the note says; - reads it from stdin.")],
    when: Annotated[str, typer.Option(help="When to use it: the words it is found by.")] = "",
    trust: Annotated[
        float, typer.Option(help="How far to trust it; notes.min_trust decides.", min=0, max=1)
    ] = 1.0,
    author: Annotated[str | None, typer.Option(help="Who says so; default: you.")] = None,
    workspace: WorkspaceOption = "default",
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Write a note by hand. What the workspace says already, in these words or nearly, stays one.

    A store is made where there is none. While a run is writing into it, notes cannot be added.
    """
    from recollect.notes.note import Draft
    from recollect.notes.store_bank import StoreBank
    from recollect.store import open_store

    text = read_stdin() if content == "-" else content
    draft = Draft(text, when, author=author if author is not None else _user(), trust=trust)
    with open_store(store_path(store)) as writer:
        added = StoreBank(writer).add([draft], workspace)
    if as_json:
        write_json({"added": [note.id for note in added.notes], "duplicates": added.duplicates})
    elif added.notes:
        say(f"{added.notes[0].id}  added to {workspace}")
    else:
        say("left out: a note of this workspace says that already")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # nobody, as in some containers
        return ""

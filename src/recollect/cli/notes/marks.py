"""`recollect notes ban`, `unban`, `retire`, `revive`: a person's word on single notes."""

from __future__ import annotations

from typing import Annotated

import typer

from recollect.cli.marking import Reason, tell_marked
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path
from recollect.types import NoteAction, NoteStatus

Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID...", help="Notes, each shortened as far as it stays unique."),
]

# What an action is for: notes of these states, which then are in that one.
_FROM = {
    NoteAction.BAN: (NoteStatus.LIVE, NoteStatus.RETIRED),
    NoteAction.UNBAN: (NoteStatus.BANNED,),
    NoteAction.RETIRE: (NoteStatus.LIVE,),
    NoteAction.REVIVE: (NoteStatus.RETIRED,),
}
_DONE = {
    NoteAction.BAN: "banned",
    NoteAction.UNBAN: "no longer banned",
    NoteAction.RETIRE: "retired",
    NoteAction.REVIVE: "live again",
}


def epilog(command: str) -> str:
    """Build the examples of one of the four commands."""
    return examples(
        f"recollect notes {command} 3f2a --store runs/demo-1",
        f'recollect notes {command} 3f2a 9c01 --reason "seen on Monday"',
    )


def ban(
    ids: Ids, reason: Reason = "", store: StoreOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """Keep notes out of every prompt, and their words from coming back as a new note.

    What they guided stays in the pool: see `notes show ID --guided`, and `pool ban`.
    """
    _mark(NoteAction.BAN, ids, reason, store, as_json)


def unban(
    ids: Ids, reason: Reason = "", store: StoreOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """Let banned notes be used again."""
    _mark(NoteAction.UNBAN, ids, reason, store, as_json)


def retire(
    ids: Ids, reason: Reason = "", store: StoreOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """Rest notes that do not help, as a run does by itself."""
    _mark(NoteAction.RETIRE, ids, reason, store, as_json)


def revive(
    ids: Ids, reason: Reason = "", store: StoreOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """Let retired notes be used again."""
    _mark(NoteAction.REVIVE, ids, reason, store, as_json)


def _mark(action: NoteAction, given: list[str], reason: str, store: str, as_json: bool) -> None:
    """Mark all of them in one transaction, or none if one of the ids is wrong."""
    from recollect.notes.store_bank import StoreBank
    from recollect.store import open_reader, open_store

    path = store_path(store)
    with open_reader(path) as reader:  # refuses a wrong file or id before anything is written
        bank = StoreBank(reader)
        notes = list(dict.fromkeys(bank.resolve(id_) for id_ in given))
        states = {note: bank.status(note) for note in notes}
    chosen = [note for note in notes if states[note] in _FROM[action]]
    if chosen:
        with open_store(path) as writer:
            StoreBank(writer).mark(chosen, action, reason)
    left = {note: f"it is {states[note].value}" for note in notes if note not in chosen}
    tell_marked(action.value, _DONE[action], notes, left, ("note", "notes"), as_json)

"""`recollect pool ban`, `unban`, `release`, `pin`, `unpin`: a person's word on trajectories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.marking import Reason, tell_marked
from recollect.cli.stdin import read_stdin
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path
from recollect.errors import CorruptRecord
from recollect.types import Action, Status

if TYPE_CHECKING:
    from recollect.store.base import StoreReader
    from recollect.store.records import Row

Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...",
        help="Trajectories, each shortened as far as it stays unique; - reads them from stdin.",
    ),
]

_DONE = {
    Action.BAN: "banned",
    Action.UNBAN: "no longer banned",
    Action.RELEASE: "no longer set aside",
    Action.PIN: "pinned",
    Action.UNPIN: "no longer pinned",
}


def epilog(command: str) -> str:
    """Build the examples of one of the five commands."""
    return examples(
        f"recollect pool {command} 3f2a",
        f'recollect pool {command} 3f2a 9c01 --reason "looked at on Monday"',
    )


def ban(
    ids: Ids, reason: Reason = "", store: StoreOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """Take trajectories out of replay until they are unbanned. Nothing is deleted."""
    _mark(Action.BAN, ids, reason, store, as_json)


def unban(
    ids: Ids, reason: Reason = "", store: StoreOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """Let banned trajectories be drawn again. What was evicted before its ban stays evicted."""
    _mark(Action.UNBAN, ids, reason, store, as_json)


def release(
    ids: Ids, reason: Reason = "", store: StoreOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """Take back that trajectories were set aside (quarantined), where their frames are sound.

    They become what they were before: live, banned or evicted. What is still damaged is left alone.
    """
    _mark(Action.RELEASE, ids, reason, store, as_json)


def pin(
    ids: Ids, reason: Reason = "", store: StoreOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """Keep trajectories, whatever budgets and `prune` say."""
    _mark(Action.PIN, ids, reason, store, as_json)


def unpin(
    ids: Ids, reason: Reason = "", store: StoreOption = DEFAULT, as_json: JsonOption = False
) -> None:
    """Let budgets and `prune` remove trajectories that were pinned."""
    _mark(Action.UNPIN, ids, reason, store, as_json)


def _mark(action: Action, given: list[str], reason: str, store: str, as_json: bool) -> None:
    """Mark all of them in one transaction, or none if one of the ids is wrong."""
    from recollect.ledger import Mark
    from recollect.store import open_reader, open_store
    from recollect.store.records import Batch

    path = store_path(store)
    with open_reader(path) as reader:  # refuses a wrong file or id before anything is written
        rows = [reader.row(reader.resolve(id_)) for id_ in _expanded(given)]
        rows = list({row.id: row for row in rows}.values())
        left = {row.id: why for row in rows if (why := _needless(action, row, reader))}
    chosen = [row.id for row in rows if row.id not in left]
    if chosen:
        with open_store(path) as writer:
            writer.commit(Batch(marks=[Mark(id_, action, reason) for id_ in chosen]))
    ids, noun = [row.id for row in rows], ("trajectory", "trajectories")
    tell_marked(action.value, _DONE[action], ids, left, noun, as_json)


def _expanded(given: list[str]) -> list[str]:
    return [id_ for text in given for id_ in (read_stdin().split() if text == "-" else (text,))]


def _needless(action: Action, row: Row, reader: StoreReader) -> str:
    """Say why a row should stay as it is; empty if the mark changes something."""
    if action is Action.BAN and row.status in (Status.BANNED, Status.QUARANTINED):
        return f"it is {row.status.value} already"
    if action is Action.UNBAN and row.status is not Status.BANNED:
        return f"it is {row.status.value}, not banned"
    if action is Action.RELEASE:
        return _kept_aside(row, reader)
    if action is Action.PIN and row.pinned:
        return "it is pinned already"
    if action is Action.UNPIN and not row.pinned:
        return "it is not pinned"
    return ""


def _kept_aside(row: Row, reader: StoreReader) -> str:
    """Say why a row is not released: it was not set aside, or it is damaged indeed."""
    if row.status is not Status.QUARANTINED:
        return f"it is {row.status.value}, not quarantined"
    try:
        reader.get([row.id])
    except CorruptRecord as error:
        return f"it is damaged ({error.problem})"
    return ""

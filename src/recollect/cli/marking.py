"""What the commands that mark single things have in common: the option why, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

import typer

from recollect.cli.output import count, say, shown_ids, write_json

Reason = Annotated[str, typer.Option(help="Why, for whoever looks later.", metavar="TEXT")]
Id = TypeVar("Id", bound=str)


def tell_marked(
    action: str,
    done: str,
    ids: Sequence[Id],
    left: Mapping[Id, str],
    noun: tuple[str, str],
    as_json: bool,
) -> None:
    """Tell what became of each id: `done`, or why it was left alone; `noun` is one and many."""
    changed = [id_ for id_ in ids if id_ not in left]
    if as_json:
        write_json({"action": action, "changed": changed, "left_alone": left})
        return
    for id_, shown in zip(ids, shown_ids(ids), strict=True):
        say(f"{shown}  {'left alone: ' + left[id_] if id_ in left else done}")
    if len(ids) > 1:
        say(f"{count(len(changed), *noun)} {done}")

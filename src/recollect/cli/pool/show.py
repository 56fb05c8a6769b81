"""`recollect pool show`: one trajectory, readably."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.output import Column, console, is_terminal, say, write_json, write_table
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path

if TYPE_CHECKING:
    from recollect.cli.conversation import Line

EPILOG = examples(
    "recollect pool show 3f2a",
    "recollect pool show 3f2a --logprobs",
    "recollect pool show 3f2a --json | jq .trajectory.reward",
)


def show(
    id_: Annotated[
        str, typer.Argument(metavar="ID", help="The trajectory, shortened as far as it is unique.")
    ],
    logprobs: Annotated[
        bool,
        typer.Option("--logprobs", help="Add log-prob and entropy of every sampled token."),
    ] = False,
    segments: Annotated[
        bool, typer.Option("--segments", help="List the segments instead of their text.")
    ] = False,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    r"""Show one trajectory as a conversation.

    Before it stands what is known about it: task, reward, policy version, uses, marks, notes.
    Control characters in its text are shown as escapes such as \x1b. With --json: everything,
    token by token, with its marks, draws and uses.
    """
    if logprobs and segments:
        raise typer.BadParameter("choose one of --logprobs and --segments")
    if as_json and (logprobs or segments):
        raise typer.BadParameter("--json has everything; leave --logprobs and --segments out")
    from recollect.cli import conversation
    from recollect.cli.documents import document as doc
    from recollect.cli.documents import row_document, trajectory_document
    from recollect.cli.pool.ls import age
    from recollect.cli.selection import newest_versions
    from recollect.store import open_reader

    with open_reader(store_path(store)) as reader:
        found = reader.resolve(id_)
        row, trajectory = reader.row(found), reader.get([found])[0]
        task, marks = reader.task(row.task), reader.marks(found)
        years = age(row, newest_versions(reader))
        draws, uses = reader.draws(trajectory=found), reader.uses(trajectory=found)
        links = reader.links(trajectory=found)
    if as_json:
        story = {"marks": doc(marks), "draws": doc(draws), "uses": doc(uses), "links": doc(links)}
        about = {"row": row_document(row, task, years), "task": doc(task)}
        write_json(about | {"trajectory": trajectory_document(trajectory)} | story)
        return
    _write(conversation.header(trajectory, row, task, years, marks))
    if segments:
        say()
        write_table(_SEGMENT_COLUMNS, list(conversation.segment_table(trajectory)))
        return
    _write(conversation.conversation(trajectory, logprobs, _tokens_per_line()))


_SEGMENT_COLUMNS = (
    *(Column("segment", right=True), Column("kind"), Column("name")),
    *(Column(title, right=True) for title in ("start", "end", "sampled", "characters", "calls")),
)


def _write(lines: Iterable[Line]) -> None:
    if not is_terminal():
        for line in lines:
            say(line.text)
        return
    from rich.padding import Padding
    from rich.text import Text

    place = console()
    for line in lines:
        text = line.text.lstrip(" ")
        indent = len(line.text) - len(text)
        # Wrapped lines keep their indentation, so that they stay part of what they belong to.
        place.print(Padding(Text(text, style=line.style), (0, 0, 0, min(indent, 40))))


def _tokens_per_line() -> int:
    """One token per line in a pipe, as many as fit on a terminal."""
    if not is_terminal():
        return 1
    from recollect.cli.conversation import TOKEN_WIDTH

    return max(1, (console().width - 2) // (TOKEN_WIDTH + 2))

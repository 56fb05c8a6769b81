"""`recollect notes search`: the notes that share words with a question, best first."""

from __future__ import annotations

from typing import Annotated

import typer

from recollect.cli.notes.spelling import WorkspaceOption
from recollect.cli.output import Column, decimal, remark, shown_ids, write_json, write_table
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path

EPILOG = examples(
    'recollect notes search "cancel my booking" --store runs/demo-1',
    'recollect notes search "a window seat" -n 1 --json',
)


def search(
    question: Annotated[str, typer.Argument(help="What a task asks, or any words.")],
    limit: Annotated[
        int, typer.Option("-n", "--limit", help="Notes to find.", min=1, metavar="N")
    ] = 5,
    min_trust: Annotated[
        float, typer.Option(help="Pass over notes below this trust.", min=0, max=1)
    ] = 0.5,
    workspace: WorkspaceOption = "default",
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Find notes by full-text search (BM25), best first.

    Rollouts also keep to notes.min_overlap, and to notes.retrieval.
    """
    from recollect.cli.documents import document
    from recollect.notes.store_bank import StoreBank
    from recollect.store import open_reader

    with open_reader(store_path(store)) as reader:
        found = StoreBank(reader).search(question, limit, workspace, min_trust)
    if as_json:
        write_json([document(each) for each in found])
        return
    if not found:
        trusted = f" that is trusted at least {min_trust:g}" if min_trust else ""
        remark(f"No live note of this workspace{trusted} shares a word with the question.")
        return
    ids = shown_ids([each.note.id for each in found])
    cells = [
        (id_, decimal(each.score), each.note.when_to_use, each.note.content)
        for id_, each in zip(ids, found, strict=True)
    ]
    columns = [
        Column("id", style="cyan"),
        Column("score", right=True),
        Column("when to use", narrow="cut"),
        Column("content", narrow="wrap"),
    ]
    write_table(columns, cells)

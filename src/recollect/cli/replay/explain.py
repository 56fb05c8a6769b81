"""`recollect replay explain`: the stored rows of one step, why they were drawn, what they did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.output import Column, count, decimal, say, write_json, write_table
from recollect.cli.store_option import JsonOption, examples, existing_store, run_in
from recollect.cli.untrusted import visible

if TYPE_CHECKING:
    from recollect.ledger import Draw, Use
    from recollect.store.base import StoreReader

EPILOG = examples(
    "recollect replay explain runs/demo-1 20", "recollect replay explain runs/demo-1 20 --json"
)

_WIDE = ("weight", "r p50", "ESS", "clipped")  # left out where a terminal is narrow
_LEFT = ("row", "task")
_RIGHT = ("reward", "age", "chance", "weight", "used", "r p50", "r p99", "ESS", "clipped", "loss")


def explain(
    run: Annotated[str, typer.Argument(help="Folder of the run, or its store.")],
    step: Annotated[int, typer.Argument(help="The step.", min=1)],
    name: Annotated[
        str | None,
        typer.Option("--run", help="Which run of the store; the folder's own, else the newest."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a step drew from the pool: every row, how likely, why, and what it did.

    chance is the exact probability of the draw, weight its priority weight; used says in how many
    updates the row was applied; r is the policy ratio of its tokens at the first of them, ESS
    their effective sample size, loss the row's share of that update's absolute token losses. Of
    rows that `pool prune` removed since, what the ledger says is left.
    """
    from recollect.cli.documents import document
    from recollect.cli.selection import newest_run, resolve_run
    from recollect.errors import RunMissing
    from recollect.store import open_reader

    with open_reader(existing_store(run)) as reader:
        chosen = resolve_run(reader, name) if name else run_in(run) or newest_run(reader)
        draws, cursor = reader.draws(run=chosen, step=step), reader.cursor(chosen)
        if not draws and cursor is not None and step > cursor.step:
            why = f"there is no step {step}, its last one is {cursor.step}"
            raise RunMissing(visible(chosen), why, "Give a step from 1 on.")
        uses = {use.slot: use for use in reader.uses(run=chosen, step=step)}
        known = {} if as_json else _known(reader, draws)
    if as_json:
        write_json(
            [
                {"draw": document(d), "use": document(uses[d.slot]) if d.slot in uses else None}
                for d in draws
            ]
        )
        return
    if not draws:
        say(f"Step {step} of {visible(chosen)} drew nothing from the pool.")
        return
    say(f"Step {step} of {visible(chosen)}: {count(len(draws), 'row')} drawn, {len(uses)} used.")
    for reason in dict.fromkeys(draw.reason for draw in draws):
        here = [draw for draw in draws if draw.reason == reason]
        say(f"\n{visible(reason)}")
        cells = [
            [draw.trajectory[:8], *known.get(draw.trajectory, ("-", "-"))]
            + _figures(draw, uses.get(draw.slot))
            for draw in here
        ]
        figures = (Column(title, right=True, wide=title in _WIDE) for title in _RIGHT)
        columns = [*(Column(title) for title in _LEFT), *figures]
        write_table(columns, cells)
    say("(chance is that of the draw, r the policy ratio, loss the share of the update's loss)")


def _known(reader: StoreReader, draws: list[Draw]) -> dict[str, tuple[str, str]]:
    """Name task and reward of the drawn rows that are still there; a row may be gone for good."""
    from recollect.store.records import Query

    wanted = Query(ids=[draw.trajectory for draw in draws], status=None)
    rows = reader.rows(wanted, limit=max(1, len(draws))).rows
    return {row.id: (reader.task(row.task).id, decimal(row.reward)) for row in rows}


def _figures(draw: Draw, use: Use | None) -> list[str]:
    cells = [str(draw.age), decimal(draw.probability), decimal(draw.weight)]
    if use is None:
        return [*cells, "no", "-", "-", "-", "-", "-"]
    measured = (use.ratio_p50, use.ratio_p99, use.ess, use.clip_share, use.loss_share)
    return [*cells, str(use.epochs), *(decimal(value) for value in measured)]

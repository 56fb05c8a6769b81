"""`recollect pool why`: everything that became of one trajectory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.output import Column, count, decimal, say, write_json, write_table
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path
from recollect.cli.untrusted import visible

if TYPE_CHECKING:
    from recollect.ledger import Draw, Use

EPILOG = examples("recollect pool why 3f2a", "recollect pool why 3f2a --json")

_WIDE = ("weight", "r p50", "ESS", "clipped")  # left out where a terminal is narrow
_TITLES = ("step", "age", "chance", "weight", "used", "r p50", "r p99", "ESS", "clipped", "loss")


def why(
    id_: Annotated[
        str, typer.Argument(metavar="ID", help="The trajectory, shortened as far as it is unique.")
    ],
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Tell the story of one trajectory: where it came from, every draw, what each use did.

    chance is the exact probability of the draw; used says in how many updates it was applied, and
    "no" that it was drawn and left out; r is the policy ratio of its tokens then, ESS their
    effective sample size, loss its share of that update's absolute token losses.
    """
    from recollect.cli.documents import document
    from recollect.store import open_reader

    with open_reader(store_path(store)) as reader:
        found = reader.resolve(id_)
        row = reader.row(found)
        task = reader.task(row.task)
        draws, uses = reader.draws(trajectory=found), reader.uses(trajectory=found)
        scores, marks = reader.scores(trajectory=found), reader.marks(found)
    if as_json:
        story = {"draws": draws, "uses": uses, "scores": scores, "marks": marks}
        write_json({"id": found, **{name: document(part) for name, part in story.items()}})
        return
    outcome = "success" if row.success else "failure"
    version = "no policy" if row.policy_version is None else f"policy version {row.policy_version}"
    say(f"{found[:12]}  {visible(task.environment)} {visible(task.id)}")
    say(f"Sampled in step {row.step} of {visible(row.run)} by {version}: {outcome}.")
    if scores:
        # Steps of other runs, which replayed it, do not compare with those of its own.
        first = next((score for score in scores if score.run == row.run), scores[0])
        say(
            f"Its advantage then was {first.advantage:+.3f}; it is {scores[-1].advantage:+.3f} now."
        )
    if draws:
        applied = {(use.run, use.step, use.slot): use for use in uses}
        say(f"Drawn {count(len(draws), 'time')}, used {count(len(uses), 'time')}:\n")
        columns = [
            *(Column(title, right=True, wide=title in _WIDE) for title in _TITLES),
            Column("why", narrow="wrap"),
        ]
        cells = [_cells(d, applied.get((d.run, d.step, d.slot))) for d in draws]
        if any(draw.run != row.run for draw in draws):
            columns = [Column("run"), *columns]
            cells = [[visible(d.run), *texts] for d, texts in zip(draws, cells, strict=True)]
        write_table(columns, cells)
    else:
        say("It was never drawn.")
    for mark in marks:
        when = "" if mark.step is None else f" in step {mark.step}"
        say(f"{mark.action.value}{when}: {visible(mark.reason)}")


def _cells(draw: Draw, use: Use | None) -> list[str]:
    cells = [str(draw.step), str(draw.age), decimal(draw.probability), decimal(draw.weight)]
    if use is None:
        return [*cells, "no", "-", "-", "-", "-", "-", draw.reason]
    measured = (use.ratio_p50, use.ratio_p99, use.ess, use.clip_share, use.loss_share)
    return [*cells, str(use.epochs), *(decimal(value) for value in measured), draw.reason]

"""`recollect notes ablate`: the same evaluation with a note and without it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.evaluate import load_subject
from recollect.cli.notes.spelling import points
from recollect.cli.output import Column, count, remark, say, waiting, write_json, write_table
from recollect.cli.store_option import JsonOption, examples
from recollect.cli.train import require_training
from recollect.telemetry.spelling import percent

if TYPE_CHECKING:
    from recollect.notes.credit import Credit
    from recollect.telemetry.scores import Score

EPILOG = examples(
    "recollect notes ablate runs/demo-1 3f2a",
    "recollect notes ablate runs/demo-1 3f2a --split test --tasks 300",
)


def ablate(
    run: Annotated[str, typer.Argument(help="Folder of the run whose policy and bank are used.")],
    note: Annotated[str, typer.Argument(metavar="ID", help="The note, or the start of its id.")],
    split: Annotated[str, typer.Option("--split", help="The split.")] = "dev",
    tasks: Annotated[int, typer.Option("--tasks", min=1, help="How many tasks in all.")] = 120,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Attempts at each task.")] = 1,
    temperature: Annotated[
        float, typer.Option("--temperature", min=0.0, help="Of the sampling; 0 = the likeliest.")
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Evaluate a run's newest policy three times: with its notes, without this one, without any.

    Without it, a task gets the next best notes instead. Only tasks that are given the note can
    differ; the others are told apart. Nothing is written.
    """
    require_training()
    from contextlib import closing

    from recollect.envs.registry import load_environment
    from recollect.notes.credit import Credit
    from recollect.store import open_reader
    from recollect.telemetry.scores import pool
    from recollect.train.evaluation import Guiding
    from recollect.train.folder import RunFolder
    from recollect.train.note_parts import check_sources, make_bank, make_guide
    from recollect.train.parts import make_collector, make_evaluator
    from recollect.types import NoteStatus

    flags = [f"eval.split={split}", f"eval.tasks={tasks}"]
    flags += [f"eval.rows={rows}", f"eval.temperature={temperature}"]
    folder = RunFolder(Path(run))
    folder.load()  # says so where there is no run
    config, policy = load_subject(run, flags)
    path = folder.store(config)
    world = load_environment(config.environment.name, **config.environment.options)
    with open_reader(path) as reader, closing(make_collector(config, world, policy)) as collector:
        bank = make_bank(config, reader)
        chosen = bank.resolve(note)
        evaluator = make_evaluator(config, world, collector)
        live = bank.notes(config.notes.workspace, NoteStatus.LIVE)
        check_sources(live, (), [task.key for task in evaluator.tasks])
        whole, less = make_guide(config, bank), make_guide(config, bank, [chosen])
        given = [
            task for task in evaluator.tasks if chosen in [n.id for n in whole.for_task(task).notes]
        ]
        found: dict[str, tuple[Score, ...]] = {}
        with waiting("evaluating three times"):
            found["with it"] = evaluator.evaluate(
                guiding=Guiding("all", 1.0, whole.for_task)
            ).scores
            found["without it"] = evaluator.evaluate(
                guiding=Guiding("all", 1.0, less.for_task)
            ).scores
            found["without notes"] = evaluator.evaluate().scores
    totals = {name: pool(scores) for name, scores in found.items()}
    with_, without = totals["with it"], totals["without it"]
    credit = Credit(with_.n, with_.successes, without.n, without.successes)
    if as_json:
        write_json(
            {
                "note": chosen,
                "tasks": len(evaluator.tasks),
                "attempts": evaluator.size,
                "tasks_given_it": len(given),
                "success": {name: total.success for name, total in totals.items()},
                "gain": credit.gain,
                "gain_interval": credit.gain_interval,
            }
        )
        return
    _write(found, totals)
    say(_verdict(credit))
    every, tried = count(len(evaluator.tasks), "task"), count(evaluator.size, "attempt")
    say(f"{len(given)} of {every} get the note; {tried} each time, split {split}.")
    if not given:
        remark("No task is given this note, so taking it out changes nothing.")


def _write(found: dict[str, tuple[Score, ...]], totals: dict[str, Score]) -> None:
    from recollect.telemetry.scores import by_domain

    domains = {name: [*by_domain(scores), totals[name]] for name, scores in found.items()}
    first = next(iter(domains.values()))
    write_table(
        [Column("domain"), Column("n", right=True), *(Column(n, right=True) for n in domains)],
        [
            (score.domain, str(score.n), *(percent(cells[n].success) for cells in domains.values()))
            for n, score in enumerate(first)
        ],
    )


def _verdict(credit: Credit) -> str:
    low, high = credit.gain_interval or (0.0, 0.0)
    change = f"{points(credit.gain)} points ({points(low)} to {points(high)})"
    return f"The note changes success by {change}."

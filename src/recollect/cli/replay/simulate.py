"""`recollect replay simulate`: what a configuration would draw from a pool."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.output import Column, count, remark, say, write_json, write_table
from recollect.cli.store_option import JsonOption, examples, existing_store

if TYPE_CHECKING:
    from recollect.replay.simulation import Simulation

EPILOG = examples(
    "recollect replay simulate demo runs/demo-1 replay.modes=[buffer] pool.max_age=10",
    "recollect replay simulate my.yaml pool.db --steps 50 --json",
)
_SHOWN = 12


def simulate(
    config: Annotated[str, typer.Argument(help="A YAML file or the name of a preset.")],
    pool: Annotated[str, typer.Argument(help="A store, or the folder of a run.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="Settings on top: key=value ...")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", help="Steps to draw for.", min=1)] = 20,
    as_json: JsonOption = False,
) -> None:
    """Say what would be drawn from a pool, step by step, without a model.

    The pool is taken as it lies and ages by the optimiser steps that a training step makes;
    nothing is written. Rows of the newest run's fingerprints count as fitting, and
    replay.start_success as reached. Of the environment, domains and levels choose the tasks;
    split, tasks and options do not. Repair is left out, because it depends on what fresh rows do,
    and so are adapt, which goes by what training shows, and what continual sets for a stage.
    """
    from recollect.config import load_config
    from recollect.replay.inspection import make_simulator
    from recollect.replay.settings import pace
    from recollect.replay.simulation import simulate as run
    from recollect.store import open_reader

    loaded = load_config(config, settings or []).config
    if not loaded.replay.modes:
        remark("replay.modes is empty, so nothing would be drawn. Try: replay.modes=[mix,buffer]")
    with open_reader(existing_store(pool)) as reader:
        replayer, version = make_simulator(reader, loaded)
        found = run(replayer, steps, loaded.rollout.tasks_per_step, version, pace(loaded))
    if as_json:
        write_json(asdict(found))
        return
    _write(found)


def _write(found: Simulation) -> None:
    say(f"{count(found.rows, 'row')} in the pool, {found.eligible:,} could be drawn in step 1.")
    shown = found.steps[:_SHOWN]
    modes = sorted({mode for step in found.steps for mode in step.by_mode})
    columns = [Column(t, right=True) for t in ("step", "could be drawn", *modes, "mean age")]
    cells = [
        [str(step.step), f"{step.eligible:,}"]
        + [str(step.by_mode.get(mode, 0)) for mode in modes]
        + ["-" if step.mean_age is None else f"{step.mean_age:.1f}"]
        for step in shown
    ]
    write_table(columns, cells)
    if len(found.steps) > len(shown):
        say(f"... and {len(found.steps) - len(shown)} more steps.")
    say(f"\n{count(found.draws, 'draw')} in {count(len(found.steps), 'step')}.")
    if found.coverage is not None:
        say(f"Coverage: {100 * found.coverage:.1f} % of the rows that could be drawn were.")
    say(f"Starved: {found.starved} of {found.tasks} tasks with such rows had none drawn.")
    if found.draws:
        ages = sorted(found.ages)
        say(f"Ages: {ages[0]} to {ages[-1]}, median {ages[len(ages) // 2]}.")
        uses = ", ".join(f"{rows:,} rows {times}x" for times, rows in found.uses.items())
        say(f"Uses: {uses}.")
        say("Domains: " + ", ".join(f"{n} {c:,}" for n, c in sorted(found.domains.items())) + ".")

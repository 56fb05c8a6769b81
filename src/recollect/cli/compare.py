"""`recollect compare`: replay beside its twin, or any arms beside each other, on the same seeds."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.output import (
    Column,
    is_terminal,
    remark,
    say,
    say_prose,
    write_json,
    write_table,
)
from recollect.cli.store_option import JsonOption, examples
from recollect.cli.train import require_training

if TYPE_CHECKING:
    from recollect.compare.jobs import Standing, Tell
    from recollect.compare.study import Study
    from recollect.compare.tables import TextTable
    from recollect.compare.tuning import Tuning

EPILOG = examples(
    "recollect compare demo --seeds 5 --target 0.5",
    "recollect compare demo 'replay.modes=[buffer]' --tune --jobs 2 --out compare/buffer",
    "recollect compare demo --arm fast=train.learning_rate=1e-3 --arm plain=",
    exits="Exit codes: 0 fine, 2 error, 130 or 143 interrupted.",
)
_TUNE_SEEDS = 2


def compare(
    config: Annotated[str, typer.Argument(help="A preset's name or a YAML file.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="key=value settings that all arms share.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds of each arm.")] = 5,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="The first of them.")] = 0,
    target: Annotated[
        float, typer.Option("--target", help="Held-out success to reach, as a share.")
    ] = 0.8,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            "--arm",
            metavar="NAME=key=value,...",
            help="An arm of your own; the first is under test, the last is the baseline. "
            "Default: replay (as configured) and twin (replay.modes=[]).",
        ),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="First find each arm's best setting on other seeds.")
    ] = False,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            metavar="[ARM:]key=value,...",
            help="With --tune: values to try, by all arms or by one. Default: learning rate times "
            "0.5, 1, 2, 4 and 1, 2, 4 epochs.",
        ),
    ] = None,
    tune_seeds: Annotated[
        int | None,
        typer.Option("--tune-seeds", min=1, help="With --tune: seeds of each setting (else 2)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder; default: compare/CONFIG.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at a time.")] = 1,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show every run.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare replay with its twin: the same run, same seed, with replay off.

    Every run is an ordinary run in OUT/ARM/seed-N. Interrupt whenever you like: the same command
    goes on, and repeats nothing that is finished. Writes OUT/compare.json, OUT/report.html and,
    with the extra `plot`, OUT/compare.png.
    """
    from recollect.compare.arms import REPLAY, TWIN, parse_arm
    from recollect.compare.study import run_study, write_study
    from recollect.config.loading import load_config

    if verbose and as_json:
        raise typer.BadParameter("--verbose is for the tables; --json has every run anyway")
    numbers = range(first_seed, first_seed + seeds)
    tuning = _tuning(tune, grid or [], first_seed, tune_seeds)
    arms = [parse_arm(text) for text in arm] if arm else [REPLAY, TWIN]
    folder = out or Path("compare") / load_config(config, settings or []).name
    require_training()
    with _progress() as tell:
        study = run_study(
            arms,
            numbers,
            folder,
            source=config,
            settings=settings or [],
            target=target,
            tuning=tuning,
            jobs=jobs,
            command=shlex.join(["recollect", *sys.argv[1:]]),
            tell=tell,
        )
    files = write_study(study)
    if as_json:
        _write_document(study)
        return
    _show(study, verbose)
    for file in files:
        say(str(file))


def _tuning(tune: bool, grid: list[str], first_seed: int, seeds: int | None) -> Tuning | None:
    from recollect.compare.tuning import AWAY, Tuning, parse_axis

    if not tune:
        for name, given in (("--grid", bool(grid)), ("--tune-seeds", seeds is not None)):
            if given:
                raise typer.BadParameter(f"{name} goes with --tune")
        return None
    first = first_seed + AWAY
    chosen = range(first, first + (seeds or _TUNE_SEEDS))
    return Tuning(tuple(chosen), tuple(parse_axis(text) for text in grid))


def _write_document(study: Study) -> None:
    from recollect.compare.document import study_document

    write_json(study_document(study))


def _show(study: Study, verbose: bool) -> None:
    from recollect.compare.tables import arm_table, run_table, tuning_table
    from recollect.compare.verdict import verdict_lines

    _write(arm_table(study))
    if verbose:
        say()
        _write(run_table(study))
        for result in study.arms:
            if result.tuned is not None:
                say(f"\nTuning of {result.arm.name}:")
                _write(tuning_table(result))
    say()
    for line in verdict_lines(study):
        say_prose(line)
    say()


def _write(table: TextTable) -> None:
    first, *others = table.titles
    numbers = (Column(title, right=True, narrow="stack") for title in others)
    columns = [Column(first, narrow="stack"), *numbers]
    write_table(columns, table.rows)


@contextmanager
def _progress() -> Iterator[Tell]:
    """Tell on stderr how far the runs have come: a bar on a terminal, else a line per run."""
    if not (sys.stderr.isatty() and is_terminal()):
        yield _say_ended
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column as Room

    place = Console(stderr=True, highlight=False, markup=False, emoji=False)
    parts = (
        BarColumn(30),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(table_column=Room(no_wrap=True)),  # where it is narrow, the bar yields
        TextColumn("left"),
        TimeRemainingColumn(table_column=Room(no_wrap=True)),
    )
    with Progress(*parts, console=place, transient=True) as bar:
        task = bar.add_task("", total=None)

        def tell(standing: Standing) -> None:
            if standing.ended is not None:
                bar.console.print(_ended(standing))
            now = ", ".join(
                f"{job.arm} seed {job.seed} step {step}" for job, step in standing.running
            )
            words = f"{standing.done}/{standing.total} runs  {now}"
            bar.update(task, completed=standing.steps_done, total=standing.steps, description=words)

        yield tell


def _say_ended(standing: Standing) -> None:
    if standing.ended is not None:
        remark(_ended(standing))


def _ended(standing: Standing) -> str:
    job = standing.ended
    assert job is not None
    how = "diverged" if job.diverged else "finished"
    return f"{standing.done}/{standing.total} {how}: {job.path}"

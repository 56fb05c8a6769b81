"""`recollect runs ls` and `recollect plot`: looking at runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from recollect.cli.output import Column, remark, say, write_json, write_table
from recollect.cli.store_option import JsonOption, examples
from recollect.telemetry.spelling import percent

if TYPE_CHECKING:
    from recollect.canonical import Json
    from recollect.train.folder import RunFolder
    from recollect.train.summary import RunState

app = typer.Typer(help="Runs and how far they have come.", no_args_is_help=True)
PLOT_EPILOG = examples(
    "recollect plot runs/demo-1",
    "recollect plot runs/demo-1 runs/demo-2 --out curves.svg --x rollouts",
)


@app.command("ls", epilog=examples("recollect runs ls", "recollect runs ls --json"))
def ls(
    folder: Annotated[Path, typer.Option("--runs", help="Where the runs are.")] = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """List runs, oldest first: how far they are and what they reached.

    With --json continual runs stand behind them, each with its stages.
    """
    from recollect.train.folder import CONTINUAL, find_runs

    found = find_runs(folder)
    states = _states(found)
    journeys = sorted(file.parent for file in folder.glob(f"*/{CONTINUAL}"))
    if as_json:
        write_json([_cells(state) for state in states] + _journeys(journeys))
        return
    for path in journeys:
        remark(f"{path} is a continual run; its stages: recollect runs ls --runs {path}/stages")
    if not states:
        if not found and not journeys:
            remark(f"No runs in {folder}. Start one with: recollect train demo")
        return
    titles = ("steps", "rollouts", "reward", "success before", "now")
    write_table(
        [Column("run"), Column("state"), *(Column(title, right=True) for title in titles)],
        [
            (
                state.name,
                "finished" if state.finished else "unfinished",
                f"{state.step}/{state.steps}",
                f"{state.rollouts:,}",
                "-" if state.reward is None else f"{state.reward:.3f}",
                percent(state.first_success),
                percent(state.last_success),
            )
            for state in states
        ],
    )


def _states(found: Sequence[RunFolder]) -> list[RunState]:
    """Read how far runs are; what cannot be read is said, and left out."""
    from recollect.errors import RecollectError
    from recollect.train.summary import state_of

    states = []
    for run in found:
        try:
            states.append(state_of(run))
        except RecollectError as error:
            remark(f"{run.path} cannot be read: {error.what}")
    return states


def _cells(state: RunState) -> dict[str, Json]:
    return {**asdict(state), "finished": state.finished, "continual": False}


def _journeys(paths: Sequence[Path]) -> list[dict[str, Json]]:
    """Describe continual runs by their stages, each of which is a run as any other."""
    if not paths:
        return []
    from recollect.continual.runner import open_journey
    from recollect.errors import RecollectError
    from recollect.train.folder import find_runs

    cells: list[dict[str, Json]] = []
    for path in paths:
        try:
            finished = open_journey(path).finished
        except RecollectError as error:
            remark(f"{path} cannot be read: {error.what}")
            continue
        stages = [_cells(state) for state in _states(find_runs(path / "stages"))]
        cells.append(
            {"name": path.name, "finished": finished, "continual": True, "stages": [*stages]}
        )
    return cells


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several are seeds of one.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="PNG, SVG or PDF; default: RUN/curves.png.")
    ] = None,
    x: Annotated[
        Literal["step", "rollouts", "minutes"], typer.Option("--x", help="The horizontal axis.")
    ] = "step",
    as_json: JsonOption = False,
) -> None:
    """Draw the learning curves of runs, and write the CSV behind them."""
    from recollect.telemetry.plots import plot_run
    from recollect.train.folder import refuse_continual

    for run in runs:
        refuse_continual(run)
    files = plot_run(runs, out or runs[0] / "curves.png", x=x)
    if as_json:
        write_json([str(file) for file in files])
        return
    for file in files:
        say(str(file))

"""`recollect continual`: learning one domain after another, and what is kept of them."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.new_folder import new_folder
from recollect.cli.output import remark, say, say_prose, write_json
from recollect.cli.store_option import EXITS_OF_RUNS, JsonOption, examples
from recollect.cli.train import require_training, show_settings
from recollect.errors.extras import install_command

if TYPE_CHECKING:
    from recollect.config.schema.config import Config
    from recollect.continual.journey import Journey
    from recollect.continual.schedule import Stage
    from recollect.telemetry.events import Sink
    from recollect.train.ranks import Ranks

_INTERVAL = 10  # steps between lines: a journey has many

EPILOG = examples(
    "recollect continual domains",
    "recollect continual domains continual.method=replay run.steps=30",
    "recollect continual mine.yaml continual.task_order=[retail,airline] --verbose",
    exits=EXITS_OF_RUNS,
)
COMPARE_EPILOG = examples(
    "recollect continual-report runs/sequential-1 runs/replay-1",
    "recollect continual-report runs/*-1 --out compare/methods",
)


def continual(
    config: Annotated[str, typer.Argument(help="A preset's name or a YAML file.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="key=value settings, such as continual.method=ewc.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every setting and its source; start nothing.")
    ] = False,
    progress: Annotated[
        bool,
        typer.Option(
            "--progress/--no-progress",
            "--use-progress-bar/--no-use-progress-bar",
            "--use_progress_bar/--no-use_progress_bar",
            help="A bar, or one line every few steps.",
        ),
    ] = True,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show every metric.")] = False,
    log_interval: Annotated[
        int | None,
        typer.Option(
            "--log-interval",
            "--log_interval",
            min=1,
            help="Steps between lines; 10, where the settings say nothing either.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --dry-run: the settings as JSON.")
    ] = False,
) -> None:
    """Train one agent on a sequence of domains and measure what it kept, lost and transferred.

    All domains are examined at every stage, seen or not, and so is the untouched base. The folder
    holds a run for each stage, metrics.json and plots. Interrupt whenever you like:
    `recollect resume FOLDER` goes on, in the middle of a domain if need be.
    """
    from recollect.config.loading import load_config

    if as_json and not dry_run:
        raise typer.BadParameter("--json goes with --dry-run")
    loaded = load_config(config, settings or [])
    if dry_run:
        show_settings(loaded, as_json)
        return
    require_training()
    from recollect.continual.runner import create_journey
    from recollect.engines.launch import together

    def work(ranks: Ranks) -> None:
        with new_folder(loaded) as folder:
            journey = create_journey(folder.path, loaded.config)
        run_journey(journey, ranks, progress, verbose, log_interval)

    together(work)


def run_journey(
    journey: Journey, ranks: Ranks, progress: bool, verbose: bool, log_interval: int | None
) -> None:
    """Carry out what is left of a continual run, and show it."""
    from recollect.continual.plots import draw_journey
    from recollect.continual.runner import travel
    from recollect.continual.screen import Screen, Style
    from recollect.train.interrupts import StoppedAtOnce

    def trackers(stage: Stage) -> Mapping[str, Sink]:
        return _trackers(journey.path / "stages" / stage.name, journey.config)

    told = journey.config.telemetry
    interval = log_interval or told.log_interval or _INTERVAL
    style = Style(progress and told.progress, interval, verbose or told.verbose)
    screen = Screen(sys.stdout, style, trackers=trackers)
    try:
        picture = draw_journey if _can_draw() else lambda finished: None
        number = travel(journey, screen, picture, ranks)
    except StoppedAtOnce as stop:
        number = stop.signal
    except KeyboardInterrupt:  # in an examination, which is made again
        number = signal.SIGINT
    if number is not None:
        say(f"[STOP] stopped by {signal.Signals(number).name}; what was done is saved")
        say(f"  recollect resume {shlex.quote(str(journey.path))}")
        raise typer.Exit(128 + number)


def _can_draw() -> bool:
    if find_spec("matplotlib") is not None:
        return True
    remark(f"There are no pictures without matplotlib: {install_command('plot')}")
    return False


def continual_report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of continual runs.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where report.html and its plots go.")
    ] = Path("continual-report"),
    as_json: JsonOption = False,
) -> None:
    """Compare methods: runs of the same order, over their seeds, with intervals.

    Writes OUT/report.html, OUT/comparison.json and, with the extra `plot`, pictures: the score
    matrix of each method, and forgetting by method.
    """
    from recollect.compare.methods import compare_methods, comparison_document
    from recollect.compare.methods_report import write_comparison

    found = compare_methods(runs)
    files = write_comparison(found, out, pictured=_can_draw())
    if as_json:
        write_json(comparison_document(found))
        return
    for line in found.lines():
        say(line)
    for sentence in found.remarks():
        say_prose(sentence)
    for file in files:
        say(str(file))


def _trackers(folder: Path, config: Config) -> Mapping[str, Sink]:
    from recollect.telemetry.sinks.trackers import open_trackers

    settings = config.telemetry
    return open_trackers(settings.sinks, folder, settings.project, settings.offline)

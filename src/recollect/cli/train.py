"""`recollect train` and `recollect resume`: running the loop from a configuration."""

from __future__ import annotations

import shlex
import signal
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.output import remark, say, write_json
from recollect.cli.store_option import examples

if TYPE_CHECKING:
    from recollect.config.loading import LoadedConfig
    from recollect.config.schema.config import Config
    from recollect.telemetry.events import Sink
    from recollect.train.folder import RunFolder
    from recollect.train.ranks import Ranks
    from recollect.train.session import Session

TRAIN_EPILOG = examples(
    "recollect train demo",
    "recollect train my.yaml train.learning_rate=5e-4 run.seed=1",
    "recollect train ppo --preset standard run.steps=40",
    "recollect train demo --method het",
    "recollect train demo --dry-run",
)
RESUME_EPILOG = examples("recollect resume", "recollect resume runs/demo-1")

ProgressOption = Annotated[
    bool, typer.Option("--progress/--no-progress", help="A live bar on a terminal, or plain lines.")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show every metric of a step.")]
IntervalOption = Annotated[
    int | None, typer.Option("--log-interval", min=1, help="Steps between lines.")
]


class Method(str, Enum):
    """What can be asked for with --method; each is a preset."""

    BASELINE = "baseline"
    EC = "ec"
    EI = "ei"
    HET = "het"


def train(
    config: Annotated[str, typer.Argument(help="A preset's name or a YAML file.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="key=value settings, such as run.steps=20.")
    ] = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            help="A preset on top of those CONFIG builds on; settings of a file and key=value "
            "still win. Again for more.",
        ),
    ] = None,
    method: Annotated[
        Method | None,
        typer.Option(
            help="How notes take part (seed 002): not at all; kept in training (ec); taken out of "
            "what is trained (ei); both (het). Puts the preset of that name on top.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every setting, its source, and the memory.")
    ] = False,
    progress: ProgressOption = True,
    verbose: VerboseOption = False,
    log_interval: IntervalOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --dry-run: the settings as JSON.")
    ] = False,
) -> None:
    """Train a model by reinforcement learning.

    The run keeps its configuration, store, metrics and checkpoints in one folder. Ctrl-C once
    finishes the step and saves; twice stops at once, and nothing committed is lost.
    Under torchrun several processes share the work.
    Exit codes: 0 finished, 2 error, 3 diverged, 130 or 143 interrupted.
    """
    from recollect.config.loading import load_config

    if as_json and not dry_run:
        raise typer.BadParameter("--json goes with --dry-run")
    chosen = [*(preset or []), *([method.value] if method is not None else [])]
    on_top = [f"preset+={name}" for name in chosen]
    loaded = load_config(config, [*on_top, *(settings or [])])
    if dry_run:
        show_settings(loaded, as_json)
        return
    require_training()
    from recollect.engines.launch import together
    from recollect.train.folder import create_run

    def work(ranks: Ranks) -> None:
        folder = create_run(new_folder(loaded), loaded.config)
        _run(folder, ranks, progress, verbose, log_interval)

    together(work)


def resume(
    run: Annotated[
        Path | None, typer.Argument(help="The run's folder; default: the newest unfinished one.")
    ] = None,
    runs: Annotated[Path, typer.Option("--runs", help="Where to look for runs.")] = Path("runs"),
    progress: ProgressOption = True,
    verbose: VerboseOption = False,
    log_interval: IntervalOption = None,
) -> None:
    """Go on with a run, or a continual run, that was interrupted or killed.

    It continues from its newest whole checkpoint; steps after that are computed again, with the
    same result bit for bit on a CPU.
    """
    require_training()
    from recollect.engines.launch import together
    from recollect.train.folder import RunFolder

    def work(ranks: Ranks) -> None:
        if run is not None and (run / "continual.yaml").is_file():
            _resume_journey(run, ranks, progress, verbose, log_interval)
            return
        folder = RunFolder(run) if run is not None else _newest_unfinished(runs)
        _run(folder, ranks, progress, verbose, log_interval)

    together(work)


def _resume_journey(
    path: Path, ranks: Ranks, progress: bool, verbose: bool, log_interval: int | None
) -> None:
    from recollect.cli.continual import run_journey
    from recollect.continual.runner import open_journey

    run_journey(open_journey(path), ranks, progress, verbose, log_interval or 10)


def require_training() -> None:
    """Raise MissingExtra where what a model needs is not installed, before anything is made."""
    from importlib.util import find_spec

    from recollect.errors import MissingExtra

    if any(find_spec(package) is None for package in ("torch", "transformers", "safetensors")):
        raise MissingExtra("Training or evaluating a model", "train")


def _run(
    folder: RunFolder, ranks: Ranks, progress: bool, verbose: bool, log_interval: int | None
) -> None:
    from recollect.errors import BadContinual
    from recollect.telemetry import events
    from recollect.train.interrupts import StoppedAtOnce
    from recollect.train.loop import train as run_loop
    from recollect.train.session import open_session
    from recollect.train.summary import summarise

    if (folder.path / "stage.json").is_file():
        journey = (folder.path / ".." / "..").resolve()
        what = f"{folder.path} is a stage of a continual run, which trains it with its method"
        raise BadContinual(what, f"Go on with: recollect resume {shlex.quote(str(journey))}")
    config = folder.load()
    sinks = _sinks(folder.path, config, progress, verbose, log_interval)
    with open_session(folder, sinks, ranks=ranks) as session:
        steps = config.run.steps
        title = f"{config.model.name} on {config.environment.name}"
        settings = config.model_dump(mode="json")
        session.sink.emit(
            events.RunStarted(session.run, folder.path, steps, session.done, title, settings)
        )
        try:
            outcome = run_loop(session)
        except StoppedAtOnce as stop:
            _say_stopped(session, "at once", stop.signal)
            raise typer.Exit(128 + stop.signal) from stop
        if outcome.signal is not None:
            _say_stopped(session, f"after step {outcome.step}", outcome.signal)
            raise typer.Exit(128 + outcome.signal)
        session.sink.emit(events.RunFinished(outcome.step, tuple(summarise(folder))))


def _say_stopped(session: Session, when: str, number: int) -> None:
    """Tell what is saved, and how to go on from it."""
    from recollect.telemetry.events import RunStopped
    from recollect.train.checkpoint import last_saved_step

    saved = last_saved_step(session.folder.checkpoints)
    kept = f"step {saved} is saved" if saved else "no step is saved yet"
    reason = f"stopped {when} by {signal.Signals(number).name}; {kept}"
    hint = f"recollect resume {shlex.quote(str(session.folder.path))}"
    session.sink.emit(RunStopped(saved, reason, hint))


def _sinks(
    folder: Path, config: Config, progress: bool, verbose: bool, log_interval: int | None
) -> dict[str, Sink]:
    from recollect.telemetry.progress import open_screen
    from recollect.telemetry.sinks.trackers import TrackerSettings, open_tracker

    settings = config.telemetry
    interval = log_interval or (settings.log_interval if settings.log_interval > 1 else None)
    screen = open_screen(
        sys.stdout,
        progress=progress and settings.progress,
        interval=interval,
        verbose=verbose or settings.verbose,
    )
    place = TrackerSettings(folder, settings.project)
    return {"screen": screen, **{name: open_tracker(name, place) for name in settings.sinks}}


def show_settings(loaded: LoadedConfig, as_json: bool) -> None:
    """Print every setting and where it comes from."""
    from recollect.config.showing import resolved_lines
    from recollect.models.memory import memory_lines

    if as_json:
        write_json(loaded.config.model_dump(mode="json"))
        return
    for line in (*resolved_lines(loaded), "", *memory_lines(loaded.config)):
        say(line)


def new_folder(loaded: LoadedConfig) -> Path:
    """Name the run's folder: as configured, or after its configuration with the next number."""
    root = Path(loaded.config.run.folder)
    if loaded.config.run.name:
        return root / loaded.config.run.name
    root.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        folder = root / f"{loaded.name}-{number}"
        try:
            folder.mkdir()  # takes the number: others may be starting at the same moment
        except FileExistsError:
            number += 1
        else:
            return folder


def _newest_unfinished(root: Path) -> RunFolder:
    from recollect.errors import RecollectError, RunMissing
    from recollect.train.folder import find_runs
    from recollect.train.summary import state_of

    for folder in reversed(find_runs(root)):
        try:
            if not state_of(folder).finished:
                return folder
        except RecollectError as error:
            remark(f"{folder.path} is passed over: {error.what}")
    raise RunMissing(root, "there is no unfinished run")

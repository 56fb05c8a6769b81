"""`recollect train` and `recollect resume`: running the loop from a configuration."""

from __future__ import annotations

import shlex
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.new_folder import NewFolder, new_folder
from recollect.cli.output import remark, say, write_json
from recollect.cli.store_option import EXITS_OF_RUNS, examples

if TYPE_CHECKING:
    from recollect.config.loading import LoadedConfig
    from recollect.integrations.verl.cluster import Cluster
    from recollect.train.folder import RunFolder
    from recollect.train.ranks import Ranks

TRAIN_EPILOG = examples(
    "recollect train demo",
    "recollect train my.yaml train.learning_rate=5e-4 run.seed=1",
    "recollect train ppo --preset standard run.steps=40",
    "recollect train demo --method het",
    "recollect train demo --dry-run",
    "recollect train my.yaml --engine verl --nodes 2 --gpus 8 --ray auto --dry-run",
    exits=EXITS_OF_RUNS,
)
RESUME_EPILOG = examples("recollect resume", "recollect resume runs/demo-1", exits=EXITS_OF_RUNS)

_JOURNEY = "continual.yaml"  # where it is, a folder holds a continual run

ProgressOption = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="A live bar on a terminal, or plain lines; verl has plain lines only.",
        show_default="progress",
    ),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show every metric of a step.")]
IntervalOption = Annotated[
    int | None, typer.Option("--log-interval", min=1, help="Steps between lines.")
]


NodesOption = Annotated[
    int | None, typer.Option("--nodes", min=1, help="With --engine verl: nodes of the cluster.")
]
GpusOption = Annotated[
    int | None, typer.Option("--gpus", min=1, help="With --engine verl: GPUs of each node.")
]
RayOption = Annotated[
    str | None,
    typer.Option("--ray", help="With --engine verl: address of a Ray cluster, such as auto."),
]


class EngineName(str, Enum):
    """What samples and learns: this machine, or a cluster under verl."""

    LOCAL = "local"
    VERL = "verl"


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
    engine: Annotated[
        EngineName,
        typer.Option(
            help="What samples and learns. local = this machine; verl = a cluster, by verl over "
            "Ray (docs/verl.md)."
        ),
    ] = EngineName.LOCAL,
    nodes: NodesOption = None,
    gpus: GpusOption = None,
    ray: RayOption = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print every setting, its source, and the memory; with --engine verl, what "
            "verl is told.",
        ),
    ] = False,
    progress: ProgressOption = None,
    verbose: VerboseOption = False,
    log_interval: IntervalOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --dry-run: the settings as JSON.")
    ] = False,
) -> None:
    """Train a model by reinforcement learning.

    The run keeps its configuration, store, metrics and checkpoints in one folder. Ctrl-C once
    finishes the step and saves; twice stops at once, and nothing committed is lost.
    Under torchrun several processes share the work. Figures are in RUN/metrics.jsonl.
    """
    from recollect.config.loading import load_config

    if as_json and not dry_run:
        raise typer.BadParameter("--json goes with --dry-run")
    chosen = [*(preset or []), *([method.value] if method is not None else [])]
    on_top = [f"preset+={name}" for name in chosen]
    loaded = load_config(config, [*on_top, *(settings or [])])
    if engine is EngineName.VERL:
        from recollect.cli.verl import show_verl, train_with_verl

        _refuse_bar(progress)
        cluster = _cluster(loaded, nodes, gpus, ray)
        if dry_run:
            show_verl(loaded, cluster, as_json)
        else:
            from recollect.integrations.verl.workplace import Screen

            train_with_verl(loaded, cluster, Screen(verbose, log_interval))
        return
    if (nodes, gpus, ray) != (None, None, None):
        raise typer.BadParameter("--nodes, --gpus and --ray go with --engine verl")
    if dry_run:
        show_settings(loaded, as_json)
        return
    require_training()
    from recollect.engines.launch import together
    from recollect.train.folder import create_run
    from recollect.train.generating import require_generator

    require_generator(loaded.config)

    def work(ranks: Ranks) -> None:
        with new_folder(loaded) as folder:
            folder.run = create_run(folder.path, loaded.config)
            _run(folder.run, ranks, progress is not False, verbose, log_interval, folder)

    together(work)


def resume(
    run: Annotated[
        Path | None, typer.Argument(help="The run's folder; default: the newest unfinished one.")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option("--runs", help="Where to look for runs.", show_default="runs")
    ] = None,
    progress: ProgressOption = None,
    verbose: VerboseOption = False,
    log_interval: IntervalOption = None,
) -> None:
    """Go on with a run, or a continual run, that was interrupted or killed.

    It continues from its newest whole checkpoint; steps after that are computed again, with the
    same result bit for bit on a CPU. A run under verl goes on under verl, on as many machines.
    """
    if run is not None and runs is not None:
        raise typer.BadParameter("--runs is where to look for a run; RUN names one")
    require_training()
    from recollect.engines.launch import together
    from recollect.integrations.verl.workplace import Workplace
    from recollect.train.folder import RunFolder

    path = _newest_unfinished(runs or Path("runs")) if run is None else run
    folder = RunFolder(path)
    is_journey = (path / _JOURNEY).is_file()
    cluster = None if is_journey else Workplace(path).cluster()
    if cluster is not None:
        from recollect.cli.verl import resume_with_verl
        from recollect.integrations.verl.workplace import Screen

        _refuse_bar(progress)
        resume_with_verl(folder, cluster, Screen(verbose, log_interval))
        return

    def work(ranks: Ranks) -> None:
        if is_journey:
            _resume_journey(path, ranks, progress is not False, verbose, log_interval)
            return
        _run(folder, ranks, progress is not False, verbose, log_interval)

    together(work)


def _refuse_bar(progress: bool | None) -> None:
    """Refuse a choice that a run under verl does not have."""
    if progress is not None:
        raise typer.BadParameter("--progress and --no-progress are not for runs under verl")


def _resume_journey(
    path: Path, ranks: Ranks, progress: bool, verbose: bool, log_interval: int | None
) -> None:
    from recollect.cli.continual import run_journey
    from recollect.continual.runner import open_journey

    run_journey(open_journey(path), ranks, progress, verbose, log_interval)


def require_training() -> None:
    """Raise MissingExtra where what a model needs is not installed, before anything is made."""
    from importlib.util import find_spec

    from recollect.errors import MissingExtra

    if any(find_spec(package) is None for package in ("torch", "transformers", "safetensors")):
        raise MissingExtra("Training or evaluating a model", "train")


def _run(
    folder: RunFolder,
    ranks: Ranks,
    progress: bool,
    verbose: bool,
    log_interval: int | None,
    new: NewFolder | None = None,
) -> None:
    from recollect.errors import BadContinual
    from recollect.train.folder import STAGE_MARK
    from recollect.train.running import open_sinks, run_to_end
    from recollect.train.session import open_session

    if (folder.path / STAGE_MARK).is_file():
        journey = (folder.path / ".." / "..").resolve()
        what = f"{folder.path} is a stage of a continual run, which trains it with its method"
        raise BadContinual(what, f"Go on with: recollect resume {shlex.quote(str(journey))}")
    sinks = open_sinks(
        folder, sys.stdout, progress=progress, verbose=verbose, log_interval=log_interval
    )
    with open_session(folder, sinks, ranks=ranks) as session:
        if new is not None:
            new.begun = True
        stopped = run_to_end(session)
    if stopped is not None:
        raise typer.Exit(128 + stopped)


def _cluster(loaded: LoadedConfig, nodes: int | None, gpus: int | None, ray: str | None) -> Cluster:
    from recollect.integrations.verl.cluster import Cluster

    if (nodes or 1) > 1 and not ray:
        what = f"--nodes {nodes} needs a Ray cluster that is up"
        raise typer.BadParameter(f"{what}: start it on every node, then add --ray auto")
    cpu = loaded.config.model.device == "cpu"
    return Cluster(nodes or 1, gpus or 1, cpu, ray or "")


def show_settings(loaded: LoadedConfig, as_json: bool) -> None:
    """Print every setting and where it comes from."""
    from recollect.config.showing import resolved_lines
    from recollect.models.memory import memory_lines

    if as_json:
        write_json(loaded.config.model_dump(mode="json"))
        return
    for line in (*resolved_lines(loaded), "", *memory_lines(loaded.config)):
        say(line)


def _newest_unfinished(root: Path) -> Path:
    """Find the run, or continual run, that was begun last and has not come to its end."""
    from recollect.errors import RecollectError, RunMissing

    begun = [*root.glob("*/config.yaml"), *root.glob(f"*/{_JOURNEY}")]
    for file in sorted(begun, key=lambda file: file.stat().st_mtime, reverse=True):
        try:
            if not _is_finished(file):
                return file.parent
        except RecollectError as error:
            remark(f"{file.parent} is passed over: {error.what}")
    raise RunMissing(root, "there is no unfinished run")


def _is_finished(file: Path) -> bool:
    """Tell by its settings' file whether a run, or a continual run, has come to its end."""
    from recollect.continual.runner import open_journey
    from recollect.train.folder import RunFolder
    from recollect.train.summary import state_of

    if file.name == _JOURNEY:
        return open_journey(file.parent).finished
    return state_of(RunFolder(file.parent)).finished

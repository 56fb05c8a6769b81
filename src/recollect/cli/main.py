"""The command `recollect`: its groups of commands, and what happens when one fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from recollect import __version__
from recollect.cli import compare as comparing
from recollect.cli import continual as learning
from recollect.cli import doctor as doctoring
from recollect.cli import evaluate, runs
from recollect.cli import plan as planning
from recollect.cli import train as training
from recollect.cli.config import app as config_app
from recollect.cli.env import app as env_app
from recollect.cli.failure import failures_reported
from recollect.cli.model import app as model_app
from recollect.cli.notes.app import app as notes_app
from recollect.cli.output import say
from recollect.cli.pool.app import app as pool_app
from recollect.cli.replay.app import app as replay_app
from recollect.cli.serve import app as serve_app
from recollect.cli.store_option import DEFAULT, VARIABLE, store_path


class _Commands(TyperGroup):
    """The top of the command line, where every command's failures arrive."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run a command; see `recollect.cli.failure` for what becomes of its failures."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                # A terminal that knows no UTF-8 shows \u2026 rather than a traceback.
                stream.reconfigure(errors="backslashreplace")
        with failures_reported():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    help="Reinforcement learning for LLM agents in which every rollout counts more than once.",
    epilog="Every command has --help with examples. Exit codes: 0 fine, 1 findings, 2 error.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("train", epilog=training.TRAIN_EPILOG)(training.train)
app.command("resume", epilog=training.RESUME_EPILOG)(training.resume)
app.command("eval", epilog=evaluate.EPILOG)(evaluate.evaluate)
app.command("compare", epilog=comparing.EPILOG)(comparing.compare)
app.command("continual", epilog=learning.EPILOG)(learning.continual)
app.command("continual-report", epilog=learning.COMPARE_EPILOG)(learning.continual_report)
app.command("plot", epilog=runs.PLOT_EPILOG)(runs.plot)
app.command("plan", epilog=planning.EPILOG)(planning.plan)
app.command("doctor", epilog=doctoring.EPILOG)(doctoring.doctor)
app.add_typer(runs.app, name="runs")
app.add_typer(config_app, name="config")
app.add_typer(pool_app, name="pool")
app.add_typer(replay_app, name="replay")
app.add_typer(notes_app, name="notes")
app.add_typer(env_app, name="env")
app.add_typer(model_app, name="model")
app.add_typer(serve_app, name="serve")


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"recollect {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Print what to do next, where no command was given."""
    if ctx.invoked_subcommand is None:
        for line in _next_steps():
            say(line)


def _next_steps() -> list[str]:
    """Name the three most likely next commands, which depend on there being a store."""
    path = store_path(os.environ.get(VARIABLE) or DEFAULT)
    if not isinstance(path, Path) or path.is_file():
        steps = [
            ("recollect pool stats", f"what {path} holds"),
            ("recollect pool ls", "its trajectories, newest first"),
            ("recollect pool show ID", "one of them, as a conversation"),
        ]
    else:
        steps = [
            ("recollect train demo", "train the built-in agent; no GPU, no download"),
            ("recollect pool ls --store RUN", "what an agent did, by the folder of its run"),
            ("recollect --help", "everything else"),
        ]
    width = max(len(command) for command, _ in steps)
    return ["Most likely next:", *(f"  {command:<{width}}   {why}" for command, why in steps)]


def main() -> None:
    """Run the command line."""
    app(prog_name="recollect")

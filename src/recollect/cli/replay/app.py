"""The commands of `recollect replay`, gathered from their modules."""

from __future__ import annotations

import typer

from recollect.cli.replay import explain, simulate

app = typer.Typer(
    help="What replay draws, and why.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command(epilog=explain.EPILOG)(explain.explain)
app.command(epilog=simulate.EPILOG)(simulate.simulate)

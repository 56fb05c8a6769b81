"""The commands of `recollect pool`, gathered from their modules."""

from __future__ import annotations

import typer

from recollect.cli.pool import (
    copy,
    export,
    importing,
    ls,
    marks,
    migrate,
    prune,
    show,
    sql,
    stats,
    verify,
    why,
)

app = typer.Typer(
    help="Look at the stored trajectories, and take care of them.",
    epilog="The store is --store PATH, else $RECOLLECT_STORE, else ./recollect.db. Ids can be "
    "shortened to a unique prefix. Exit codes: 0 fine, 1 findings, 2 error.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command(epilog=ls.EPILOG)(ls.ls)
app.command(epilog=show.EPILOG)(show.show)
app.command(epilog=why.EPILOG)(why.why)
app.command(epilog=stats.EPILOG)(stats.stats)
app.command(epilog=verify.EPILOG)(verify.verify)
app.command(epilog=export.EPILOG)(export.export)
app.command("import", epilog=importing.EPILOG)(importing.import_)
app.command(epilog=copy.EPILOG)(copy.copy)
app.command(epilog=prune.EPILOG)(prune.prune)
for _command in (marks.ban, marks.unban, marks.release, marks.pin, marks.unpin):
    app.command(epilog=marks.epilog(_command.__name__))(_command)
app.command(epilog=sql.EPILOG)(sql.sql)
app.command(epilog=migrate.EPILOG)(migrate.migrate)

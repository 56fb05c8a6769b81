"""The commands of `recollect notes`, gathered from their modules."""

from __future__ import annotations

import typer

from recollect.cli.notes import ablate, add, ls, marks, search, serve, show, transfer

app = typer.Typer(
    help="Look at the notes that guide rollouts, and take care of them.",
    epilog="The store is --store PATH, else $RECOLLECT_STORE, else ./recollect.db. Ids can be "
    "shortened to a unique prefix. Exit codes: 0 fine, 1 findings, 2 error.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command(epilog=ls.EPILOG)(ls.ls)
app.command(epilog=show.EPILOG)(show.show)
app.command(epilog=search.EPILOG)(search.search)
app.command(epilog=add.EPILOG)(add.add)
for _command in (marks.ban, marks.unban, marks.retire, marks.revive):
    app.command(epilog=marks.epilog(_command.__name__))(_command)
app.command(epilog=ablate.EPILOG)(ablate.ablate)
app.command(epilog=transfer.EXPORT_EPILOG)(transfer.export)
app.command("import", epilog=transfer.IMPORT_EPILOG)(transfer.import_)
app.command(epilog=serve.EPILOG)(serve.serve)

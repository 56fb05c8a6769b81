"""`recollect pool copy`: copy a whole store, between SQLite and PostgreSQL."""

from __future__ import annotations

from typing import Annotated

import typer

from recollect.cli.failure import FINDINGS
from recollect.cli.output import count, say, waiting, write_json
from recollect.cli.store_option import EXITS_WITH_FINDINGS, JsonOption, examples, store_path
from recollect.cli.untrusted import visible

EPILOG = examples(
    "recollect pool copy runs/demo backup.db",
    "recollect pool copy runs/demo 'postgres://trainer@db/pools?schema=demo'",
    exits=EXITS_WITH_FINDINGS,
)


def copy(
    source: Annotated[str, typer.Argument(help="The store to copy.", metavar="SRC")],
    target: Annotated[
        str, typer.Argument(help="Where there is no store yet, or an empty one.", metavar="DST")
    ],
    as_json: JsonOption = False,
) -> None:
    """Copy everything in a store to another place, and check the copy.

    SRC and DST are files, run folders, or postgres:// addresses. The copy is exact,
    appears whole or not at all, is read back, compared and verified. What `verify` finds in it was
    in the source too (exit code 1).
    """
    from recollect.cli.documents import document
    from recollect.store.copying import copy_store

    origin, place = store_path(source), store_path(target)  # shown without their passwords
    with waiting(f"copying {origin}"):
        report = copy_store(origin, place)
    if as_json:
        write_json(document(report))
    else:
        for finding in report.findings:
            say(f"{visible(finding.where)}: {visible(finding.problem)}")
        rows = count(report.trajectories, "trajectory", "trajectories")
        total = count(sum(report.rows.values()), "row")
        state = count(len(report.findings), "finding") if report.findings else "sound"
        say(f"{rows} ({total} in all) copied to {report.target}: equal to the source, {state}.")
    if report.findings:
        raise typer.Exit(FINDINGS)

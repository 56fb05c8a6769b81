"""The options that every command on a store has, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from recollect.store.address import Place

DEFAULT = "recollect.db"
VARIABLE = "RECOLLECT_STORE"

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        "-s",
        envvar=VARIABLE,
        metavar="PATH",
        help="The store: its file, a folder that holds store.db, or postgres://host/database.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

EXITS = "Exit codes: 0 fine, 2 error."
EXITS_WITH_FINDINGS = "Exit codes: 0 fine, 1 findings, 2 error."


def store_path(given: str) -> Place:
    """Find the store that is meant: a folder, there or spelt with a final slash, has store.db."""
    from recollect.store.address import is_address, parse_address

    if is_address(given):
        return parse_address(given)
    path = Path(given).expanduser()
    if path.is_dir() or given.endswith(("/", "\\")):
        return path / "store.db"
    return path


def examples(*lines: str, exits: str = EXITS) -> str:
    r"""Build what help prints below the options; \b keeps the lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) + "\n\n" + exits

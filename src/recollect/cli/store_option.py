"""The options that every command on a store has, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from recollect.store.address import Place
    from recollect.types import RunId

DEFAULT = "recollect.db"
VARIABLE = "RECOLLECT_STORE"

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        "-s",
        envvar=VARIABLE,
        metavar="PATH",
        help="The store: its file, a run's folder, or postgres://host/database.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

EXITS = "Exit codes: 0 fine, 2 error."
EXITS_WITH_FINDINGS = "Exit codes: 0 fine, 1 findings, 2 error."
EXITS_OF_RUNS = "Exit codes: 0 finished, 2 error, 3 diverged, 130 or 143 interrupted."


def store_path(given: str) -> Place:
    """Find the store that is meant.

    A folder, there or spelt with a final slash, has store.db, or a run whose store is elsewhere.
    That of a continual run has stages, each with its own; RunMissing names one.
    """
    from recollect.store.address import is_address, parse_address

    if is_address(given):
        return parse_address(given)
    path = Path(given).expanduser()
    if (path / "config.yaml").is_file():
        from recollect.train.folder import store_in

        return store_in(path)
    if (path / "continual.yaml").is_file():
        from recollect.train.folder import refuse_continual

        refuse_continual(path)
    if path.is_dir() or given.endswith(("/", "\\")):
        return path / "store.db"
    return path


def existing_store(given: str) -> Place:
    """Find the store that an argument names; StoreMissing, in words that fit, where it is not."""
    from recollect.errors import StoreMissing

    path = store_path(given)
    if isinstance(path, Path) and not path.is_file():
        hint = "Name a run's folder, or a store. List runs with: recollect runs ls"
        raise StoreMissing(path, hint)
    return path


def run_in(given: str) -> RunId | None:
    """Name the run of a folder, which may share its store with others; None where there is none."""
    path = Path(given).expanduser()
    if not (path / "config.yaml").is_file():
        return None
    from recollect.train.folder import RunFolder

    folder = RunFolder(path)
    return folder.run(folder.load())


def examples(*lines: str, exits: str = EXITS) -> str:
    r"""Build what help prints below the options; \b keeps the lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines) + "\n\n" + exits

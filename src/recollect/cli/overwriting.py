"""The option --overwrite, and what is said without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from recollect.errors import WouldOverwrite

OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace a file that is there already.")
]


@contextmanager
def naming_overwrite() -> Iterator[None]:
    """Have a refusal to replace a file name the option that allows it."""
    try:
        yield
    except WouldOverwrite as error:
        error.hint = "Choose another name, or replace the file with --overwrite."
        raise

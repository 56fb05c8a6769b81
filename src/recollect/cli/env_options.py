"""Options of an environment on the command line: --set KEY=VALUE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the environment; repeatable."),
]


def environment_options(settings: Sequence[str] | None) -> dict[str, object]:
    """Read KEY=VALUE as YAML would, so that levels=[1,2] is a list and size=50 a number."""
    import yaml

    options: dict[str, object] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key.isidentifier():
            raise typer.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--set")
        try:
            options[key] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
            raise typer.BadParameter(f"{setting!r}: {error}", param_hint="--set") from error
    return options

"""The filters of `ls`, `export` and `prune`, and how they become queries."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import Annotated

import typer

from recollect.types import Origin


class StatusChoice(str, Enum):
    """A status, or any of them."""

    LIVE = "live"
    EVICTED = "evicted"
    BANNED = "banned"
    QUARANTINED = "quarantined"
    ANY = "any"


@dataclass(frozen=True)
class Filters:
    """Which rows a command looks at. All that are given must hold; bounds are inclusive."""

    task: Annotated[
        str | None,
        typer.Option(help="Task: its id, or its key or the beginning of one.", metavar="TASK"),
    ] = None
    domain: Annotated[str | None, typer.Option(help="Domain.", metavar="NAME")] = None
    origin: Annotated[Origin | None, typer.Option(help="Where the row came from.")] = None
    run: Annotated[
        str | None,
        typer.Option(help="Run that wrote the row, or the beginning of its id.", metavar="RUN"),
    ] = None
    success: Annotated[
        bool | None, typer.Option("--success/--failed", help="Only successes, or only failures.")
    ] = None
    min_reward: Annotated[float | None, typer.Option(help="Smallest reward.", metavar="X")] = None
    max_reward: Annotated[float | None, typer.Option(help="Largest reward.", metavar="X")] = None
    min_uses: Annotated[int | None, typer.Option(help="Fewest uses.", min=0, metavar="N")] = None
    max_uses: Annotated[int | None, typer.Option(help="Most uses.", min=0, metavar="N")] = None
    status: Annotated[
        StatusChoice | None, typer.Option(help="Status of the row; live unless given.")
    ] = None

    def words(self) -> list[str]:
        """Name the filters that are set, for a person."""
        return _words(self)


@dataclass(frozen=True)
class MoreFilters:
    """Filters that only looking and copying have; `prune` has limits instead."""

    min_age: Annotated[
        int | None,
        typer.Option(
            help="Smallest age: the newest policy version of the row's run minus the row's own. "
            "Rows that no policy sampled have no age.",
            min=0,
            metavar="N",
        ),
    ] = None
    max_age: Annotated[int | None, typer.Option(help="Largest age.", min=0, metavar="N")] = None
    pinned: Annotated[
        bool | None, typer.Option("--pinned/--not-pinned", help="Only pinned rows, or only others.")
    ] = None

    def words(self) -> list[str]:
        """Name the filters that are set, for a person."""
        return _words(self)


_SIGNS = {"min": ">=", "max": "<="}


def _words(filters: Filters | MoreFilters) -> list[str]:
    found = []
    for field in fields(filters):
        value = getattr(filters, field.name)
        if value is None:
            continue
        bound, _, name = field.name.partition("_")
        if bound in _SIGNS:
            found.append(f"{name} {_SIGNS[bound]} {value:g}")
        elif isinstance(value, bool):
            names = {"success": ("failed", "successful"), "pinned": ("not pinned", "pinned")}
            found.append(names[field.name][value])
        else:
            found.append(f"{field.name} {value.value if isinstance(value, Enum) else value}")
    return found

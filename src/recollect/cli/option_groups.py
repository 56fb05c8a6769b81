"""Options that several commands share, declared once as the fields of a dataclass.

    @dataclass(frozen=True)
    class Filters:
        domain: Annotated[str | None, typer.Option(help="...")] = None

    @with_groups
    def ls(filters: Filters, limit: int = 20) -> None: ...

Typer sees `ls(domain, limit)`; the function gets a `Filters`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a dataclass by the dataclass's fields."""
    groups: dict[str, type[Any]] = {}
    shown: list[inspect.Parameter] = []
    # Not get_type_hints: Python 3.10's wraps what defaults to None in another Optional.
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = kind
            shown += _options_of(kind)
        else:
            shown.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))

    def run(**values: Any) -> None:
        made = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        command(**made, **values)

    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, __name__
    run.__annotations__ = {p.name: p.annotation for p in shown} | {"return": None}
    setattr(run, "__signature__", inspect.Signature(shown))  # noqa: B010
    return run


def _options_of(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]

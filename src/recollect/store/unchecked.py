"""Making records whose values were checked before, without checking them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, make_dataclass
from typing import Any, TypeVar

R = TypeVar("R")


def unchecked(kind: type[R]) -> Callable[..., R]:
    """Return a constructor of a frozen, slotted record that takes every field, by position.

    It skips the record's own checks, so it is only for values that passed them once. Setting
    the fields of a frozen record one by one is slow; a twin that is not frozen has the same
    layout, is filled at the speed of any class, and then becomes the record.
    """

    def become(twin: Any) -> None:
        twin.__class__ = kind

    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return make_dataclass(
        kind.__name__, names, namespace={"__post_init__": become}, slots=True, eq=False
    )

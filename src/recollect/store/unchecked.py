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
    layout, is filled at the speed of any class, and becomes the record by changing its class.
    """
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    twin: Any = make_dataclass(kind.__name__, names, slots=True, eq=False)

    def make(*values: Any) -> R:
        record = twin(*values)
        record.__class__ = kind
        return record  # type: ignore[no-any-return]

    return make

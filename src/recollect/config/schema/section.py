"""What every section of the configuration shares: strict types, no unknown keys, no changes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator
from pydantic_core import PydanticCustomError

CONFLICT = "conflict"

# Lists in YAML, tuples in the frozen configuration; their items stay strict.
Words: TypeAlias = Annotated[tuple[str, ...], Strict(False), Field(min_length=1)]
Levels: TypeAlias = Annotated[
    tuple[Annotated[int, Field(ge=0, le=1000)], ...], Strict(False), Field(min_length=1)
]

MOST = 1_000_000_000  # of anything that is counted


class Section(BaseModel):
    """A group of settings. Nothing is coerced but whole numbers to decimals, lists to tuples."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _without_nul(cls, value: object) -> object:
        """Refuse a NUL: no path, name or address may hold one."""
        if isinstance(value, str) and "\0" in value:
            raise ValueError("holds a NUL character; remove it")
        return value


def conflict(*keys: str, what: str, change: str) -> PydanticCustomError:
    """Make the error of a rule over several settings.

    `keys` are the full dotted names the rule reads, the likeliest culprit first; `what` says
    what is wrong, with values; `change` says what to write instead.
    """
    return PydanticCustomError(CONFLICT, "{what}", {"what": what, "keys": keys, "change": change})

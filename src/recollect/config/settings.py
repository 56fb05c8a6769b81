"""Every setting there is, told by the schema itself: for errors, listings and documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from recollect.canonical import Json
from recollect.config.schema.config import Config
from recollect.config.schema.section import MOST

_NOUNS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
}
_HUGE = (MOST, 2**63 - 1)  # upper bounds against nonsense, not worth telling


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its dotted `key`, what it accepts in words, its default, its description."""

    key: str
    kind: str
    default: Json
    description: str
    choices: tuple[str, ...]
    is_list: bool
    is_mapping: bool


@lru_cache(maxsize=1)
def all_settings() -> Mapping[str, Setting]:
    """List all settings by dotted key, in the order of the schema."""
    return MappingProxyType({setting.key: setting for setting in _walk(Config, "")})


@lru_cache(maxsize=1)
def all_sections() -> Mapping[str, str]:
    """List all sections by dotted name, `model.lora` included, with what each is about."""
    found: dict[str, str] = {}
    pending: list[tuple[str, type[BaseModel]]] = [("", Config)]
    while pending:
        name, section = pending.pop(0)
        if name:
            found[name] = " ".join((section.__doc__ or "").split())
        inner = [(f"{name}.{key}".lstrip("."), sub) for key, sub in sections_of(section).items()]
        pending[:0] = inner
    return MappingProxyType(found)


def sections_of(section: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The sections directly below a section, by name."""
    found: dict[str, type[BaseModel]] = {}
    for name, field in section.model_fields.items():
        kind = field.annotation
        # Python 3.10 takes dict[str, X] for a class; its origin tells.
        if get_origin(kind) is None and isinstance(kind, type) and issubclass(kind, BaseModel):
            found[name] = kind
    return found


def _walk(section: type[BaseModel], prefix: str) -> Iterator[Setting]:
    schemas = section.model_json_schema()["properties"]
    inner = sections_of(section)
    # A section's own settings come before those of the sections below it.
    for name, field in section.model_fields.items():
        if name not in inner:
            yield _setting(prefix + name, field, schemas[name])
    for name, below in inner.items():
        yield from _walk(below, f"{prefix}{name}.")


def _setting(key: str, field: FieldInfo, schema: dict[str, Any]) -> Setting:
    shapes = schema.get("anyOf", [schema])
    main = next(shape for shape in shapes if shape.get("type") != "null")
    default = field.get_default(call_default_factory=True)
    return Setting(
        key=key,
        kind=_kind(main) + (", or none" if len(shapes) > 1 else ""),
        default=list(default) if isinstance(default, tuple) else default,
        description=field.description or "",
        choices=tuple(main.get("enum") or main.get("items", {}).get("enum", ())),
        is_list=main["type"] == "array",
        is_mapping=main["type"] == "object",
    )


def _kind(schema: dict[str, Any]) -> str:
    """Say in words what a JSON schema accepts: `whole number from 1`."""
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    if schema["type"] == "array":
        return f"list, each {_kind(schema['items'])}"
    return " ".join([_NOUNS[schema["type"]], *_bounds(schema)])


def _bounds(schema: dict[str, Any]) -> Iterator[str]:
    if "minimum" in schema:
        yield f"from {schema['minimum']:g}"
    if "exclusiveMinimum" in schema:
        yield f"above {schema['exclusiveMinimum']:g}"
    if "maximum" in schema and schema["maximum"] not in _HUGE:
        yield f"to {schema['maximum']:g}"
    if "exclusiveMaximum" in schema:
        yield f"below {schema['exclusiveMaximum']:g}"

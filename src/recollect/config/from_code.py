"""Settings given in Python, as a mapping of sections."""

from __future__ import annotations

from collections.abc import Mapping

from recollect.canonical import Json, is_text
from recollect.config.scalars import MAX_INT
from recollect.config.tree import MAX_DEPTH, Branch, Leaf, Node, Source, plain, shortened
from recollect.errors import BadConfig

_CODE = Source("code")
_HINT = "Use plain values: text, numbers, true, false, none, lists and mappings."


def tree_from_mapping(given: Mapping[str, object]) -> Branch:
    """Turn a mapping into a tree. Raises BadConfig for what YAML could not have said."""
    return Branch({_key(key): _node(value, 1) for key, value in given.items()}, _CODE)


def _node(value: object, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise _bad(f"settings are nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return Branch({_key(key): _node(item, depth + 1) for key, item in value.items()}, _CODE)
    if isinstance(value, list | tuple):
        return Leaf([plain(_node(item, depth + 1)) for item in value], _CODE)
    return Leaf(_scalar(value), _CODE)


def _scalar(value: object) -> Json:
    """Check a single value, and strip subclasses such as numpy's float64."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= MAX_INT:
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str) and is_text(value):
        return str.__str__(value)
    raise _bad(f"{shortened(repr(value))} cannot be a setting")


def _key(key: object) -> str:
    if not isinstance(key, str) or not is_text(key):
        raise _bad(f"{shortened(repr(key))} cannot be the name of a setting")
    return str.__str__(key)


def _bad(what: str) -> BadConfig:
    return BadConfig([(f"{_CODE.text}: {what}.", _HINT)])

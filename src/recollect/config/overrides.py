"""Flags such as `train.learning_rate=3e-4` and `telemetry.sinks+=wandb`."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.canonical import is_text
from recollect.config.scalars import BadScalar, parse_scalar
from recollect.config.tree import MAX_DEPTH, Leaf, Node, Source, shortened
from recollect.config.yaml_reading import MAX_BYTES, parse_value
from recollect.errors import BadConfig
from recollect.redaction import redact

_EXAMPLE = "Write it as key=value, for example train.learning_rate=3e-4"


@dataclass(frozen=True, slots=True)
class Override:
    """One flag: the setting's path, the value, and whether it goes at the end of a list."""

    path: tuple[str, ...]
    node: Node
    append: bool
    source: Source


def parse_override(text: str) -> Override:
    """Read one flag. Raises BadConfig or BadConfigFile, naming the flag.

    Values in brackets, braces or quotes are YAML; anything else is one word: a number, true,
    false, none, or text as it stands. Nothing after the = is the empty text.
    """
    source = Source("flag", text)
    if not is_text(text) or len(text) > MAX_BYTES:
        raise BadConfig([("A flag is too long, or is not valid UTF-8 text.", _EXAMPLE)])
    key, equals, value = text.partition("=")
    append = key.endswith("+")
    path = tuple(key.removesuffix("+").strip().split("."))
    if text.startswith("--"):
        hint = f"Settings have no dashes: {shortened(redact(text.lstrip('-')))}"
        raise BadConfig([(f"{source.text}: this is neither an option nor a setting.", hint)])
    if not equals or "" in path or len(path) > MAX_DEPTH:
        raise BadConfig([(f"{source.text}: this is not a setting and a value.", _EXAMPLE)])
    return Override(path, _value(value.strip(), source), append, source)


def _value(text: str, source: Source) -> Node:
    if not text:
        return Leaf("", source)
    if text[0] in "[{\"'":
        return parse_value(text, source)
    try:
        return Leaf(parse_scalar(text), source)
    except BadScalar as error:
        hint = "Put it in quotes if it is meant as text."
        raise BadConfig([(f"{source.text}: {error}.", hint)]) from error

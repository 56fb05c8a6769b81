"""Tool calls as a person types them: `/seat id=B4K7 seat=aisle`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from recollect.canonical import Json
from recollect.envs.base import ToolSpec
from recollect.envs.tools import Call

MARK = "/"


def expand_call(text: str, tools: Sequence[ToolSpec]) -> str:
    """Write a short call out as the agent's text it stands for; other text stays as it is.

    Values are read as the tool declares them. What does not fit is passed on as text, so
    that a person gets the same error as a model would.
    """
    if not text.startswith(MARK):
        return text
    name, *pairs = text[len(MARK) :].split() or [""]
    types = {p.name: p.type for spec in tools if spec.name == name for p in spec.parameters}
    arguments: dict[str, Json] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        arguments[key] = value if types.get(key, "string") == "string" else _scalar(value)
    return Call(name, arguments).text()


def _scalar(value: str) -> Json:
    try:
        read: Json = json.loads(value.lower())
    except ValueError:
        return value
    return read if isinstance(read, int | float) else value

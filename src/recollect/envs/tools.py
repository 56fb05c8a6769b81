r"""How tool calls are written and read, for every environment.

A call is a JSON object in tags: `<tool_call>{"name":"seat","arguments":{"id":"B4K7"}}</tool_call>`.
Reading never raises: the agent's text is a model's sample and may be anything. Problems come
back as short sentences that quote nothing, so no special token or megabyte is ever echoed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from recollect.canonical import Json, is_plain_json
from recollect.envs.base import Message, Opening, Parameter, ToolSpec, system
from recollect.types import SegmentKind, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"

# Far above any sensible call; keeps a runaway sample from costing more than itself.
MAX_CALL_CHARS = 20_000


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# One encoder and one decoder for all calls: dumps and loads would build one each time.
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")


@dataclass(frozen=True, slots=True)
class Call:
    """A well-formed tool call: a name and arguments by name, not yet checked against a tool."""

    name: str
    arguments: Mapping[str, Json]

    def text(self) -> str:
        """Write the call as the agent would."""
        return OPEN + _encode({"name": self.name, "arguments": dict(self.arguments)}) + CLOSE

    def record(self) -> ToolCall:
        """Give the call as the view that stored segments carry."""
        return ToolCall(self.name, _encode(dict(self.arguments)))


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """An attempt at a tool call that cannot be read; `problem` is what to tell the agent."""

    problem: str


def parse_call(text: str) -> Call | MalformedCall | None:
    """Read the tool call in an assistant text; None if it has none and is a plain message.

    Text around the call is a thought: nobody hears it. A missing closing tag is forgiven when
    nothing follows the object, because some samplers stop before they write the tag.
    """
    start = text.find(OPEN)
    if start < 0:
        return MalformedCall("tool_call never opened") if CLOSE in text else None
    body_start = start + len(OPEN)
    end = text.find(CLOSE, body_start)
    body = text[body_start:] if end < 0 else text[body_start:end]
    if OPEN in body or (end >= 0 and OPEN in text[end:]):
        return MalformedCall("one tool call per turn")
    if len(body) > MAX_CALL_CHARS:
        return MalformedCall("tool call too long")
    return _read_body(body)


def _read_body(body: str) -> Call | MalformedCall:
    try:
        parsed: Json = _decode(body)
        plain = is_plain_json(parsed)  # a lone surrogate can hide behind an escape
    except (ValueError, RecursionError):
        return MalformedCall("tool call is not valid JSON")
    if not isinstance(parsed, dict) or not plain:
        return MalformedCall("tool call must be an object with name and arguments")
    name = parsed.get("name")
    arguments = parsed.get("arguments", {})
    if not isinstance(name, str) or not _NAME.match(name):
        return MalformedCall("tool call needs a name")
    if not isinstance(arguments, dict):
        return MalformedCall("arguments must be an object")
    return Call(name, arguments)


def argument_problem(spec: ToolSpec, arguments: Mapping[str, Json]) -> str | None:
    """Say what is wrong with the arguments of a call, or None if the tool may run."""
    known = {p.name for p in spec.parameters}
    if not known.issuperset(arguments):
        return f"use {spec.signature()}"
    for p in spec.parameters:
        if p.name not in arguments:
            if p.required:
                return f"missing {p.name}"
        elif not _fits(p, arguments[p.name]):
            return f"{p.name} must be {'|'.join(p.choices) or p.type}"
    return None


def _fits(parameter: Parameter, value: Json) -> bool:
    if parameter.type == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):  # Python counts True as a number; JSON does not
        return False
    if parameter.type == "integer":
        return isinstance(value, int)
    if parameter.type == "number":
        return isinstance(value, int | float)
    return isinstance(value, str) and (not parameter.choices or value in parameter.choices)


def signatures(tools: Sequence[ToolSpec]) -> str:
    """Describe tools and how to call them in as few words as possible."""
    listed = " ".join(spec.signature() for spec in tools)
    return f'Tools: {listed}\nCall: {OPEN}{{"name":"x","arguments":{{}}}}{CLOSE}'


def with_signatures(opening: Opening) -> tuple[Message, ...]:
    """Give the opening messages with the tools described in the system text.

    For models whose chat template has no place for tools. Without a system message one is
    put in front; an opening without tools comes back unchanged.
    """
    if not opening.tools:
        return opening.messages
    text = signatures(opening.tools)
    messages = list(opening.messages)
    for place, message in enumerate(messages):
        if message.kind is SegmentKind.SYSTEM:
            messages[place] = replace(message, text=f"{message.text}\n{text}")
            return tuple(messages)
    return (system(text), *messages)

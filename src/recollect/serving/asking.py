"""What an agent asks for: a request of OpenAI's chat completions, taken apart and checked.

What we would have to ignore silently, and would change the answer, is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.canonical import Json, canonical_json, digest, is_plain_json
from recollect.envs.base import Message, Parameter, ToolSpec
from recollect.errors import BadRequest, InvalidRecord
from recollect.types import Sampling, SegmentKind, ToolCall

MOST_ROWS = 64
_ROLES = {
    "system": SegmentKind.SYSTEM,
    "developer": SegmentKind.SYSTEM,
    "user": SegmentKind.USER,
    "tool": SegmentKind.TOOL,
}
# Members that change nothing here, or whose only accepted values change nothing.
_HARMLESS = {
    "model", "user", "metadata", "store", "service_tier", "parallel_tool_calls", "seed",
    "safety_identifier", "prompt_cache_key", "reasoning_effort", "verbosity",
}  # fmt: skip
_ONLY: dict[str, tuple[Json, ...]] = {
    "stream": (False,),
    "stop": ([],),
    "top_logprobs": (0,),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "logit_bias": ({},),
    "tool_choice": ("auto",),
    "response_format": ({"type": "text"},),
}


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a conversation."""

    role: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: the conversation so far, the tools, and how to sample."""

    messages: tuple[Said, ...]
    tools: tuple[ToolSpec, ...]
    sampling: Sampling
    rows: int
    wants_logprobs: bool
    labels: Mapping[str, str]

    @property
    def past(self) -> tuple[Said, ...]:
        """The conversation up to the assistant's last turn, that turn included."""
        places = [n for n, said in enumerate(self.messages) if said.role == "assistant"]
        return self.messages[: places[-1] + 1] if places else ()

    def news(self) -> tuple[Message, ...]:
        """What stands behind the assistant's last turn, as messages of an environment."""
        past = self.past
        names = {call.id: call.name for said in past for call in said.calls}
        return tuple(
            Message(_ROLES[said.role], said.text, names.get(said.call_id, ""))
            for said in self.messages[len(past) :]
        )


def read_request(body: Any, turn_tokens: int) -> Asked:
    """Read a request's body; BadRequest says which member cannot be used, and why."""
    if not isinstance(body, dict) or not is_plain_json(body):
        raise BadRequest("body", "is not a JSON object")
    rest = {name: value for name, value in body.items() if value is not None}
    messages = rest.pop("messages", None)
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages", "are missing")
    limit = rest.pop("max_completion_tokens", rest.pop("max_tokens", turn_tokens))
    rest.pop("max_tokens", None)
    asked = Asked(
        messages=tuple(_message(n, entry) for n, entry in enumerate(messages)),
        tools=_tools(rest.pop("tools", [])),
        sampling=_sampling(rest, limit),
        rows=_count("n", rest.pop("n", 1), MOST_ROWS),
        wants_logprobs=_flag("logprobs", rest.pop("logprobs", False)),
        labels=_labels(rest.get("metadata", {})),
    )
    for name, value in rest.items():
        if name in _HARMLESS or value in _ONLY.get(name, ()):
            continue
        raise BadRequest(name, "is not supported here" if name in _ONLY else "is not known")
    if asked.messages[-1].role == "assistant":
        raise BadRequest("messages", "end with the assistant; there is nothing to answer")
    return asked


def _sampling(rest: dict[str, Any], limit: object) -> Sampling:
    try:
        return Sampling(
            temperature=rest.pop("temperature", 1.0),
            top_p=rest.pop("top_p", 1.0),
            top_k=max(0, rest.pop("top_k", 0)),
            max_tokens=_count("max_tokens", limit, 2**31 - 1),
        )
    except (InvalidRecord, TypeError) as error:
        raise BadRequest("sampling", str(error).rstrip(".")) from error


def _count(name: str, value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadRequest(name, f"must be a whole number from 1 to {most:,}")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadRequest(name, "must be true or false")
    return value


def _labels(metadata: object) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise BadRequest("metadata", "must map names to texts")
    return dict(metadata)


def _message(number: int, entry: object) -> Said:
    where = f"messages[{number}]"
    if not isinstance(entry, dict):
        raise BadRequest(where, "is not an object")
    role = entry.get("role")
    if role == "assistant":
        given = _list(f"{where}.tool_calls", entry.get("tool_calls"))
        calls = tuple(_call(f"{where}.tool_calls", call) for call in given)
        text = _text(where, entry.get("content"), optional=True)
        return Said("assistant", "" if calls else text, calls)
    if not isinstance(role, str) or role not in _ROLES:
        raise BadRequest(f"{where}.role", f"is not one of assistant, {', '.join(_ROLES)}")
    call_id = entry.get("tool_call_id")
    if call_id is not None and not isinstance(call_id, str):
        raise BadRequest(f"{where}.tool_call_id", "is not text")
    return Said(role, _text(where, entry.get("content")), call_id=call_id or "")


def _list(where: str, given: object) -> list[Any]:
    """Read a list that may be left out."""
    if given is not None and not isinstance(given, list):
        raise BadRequest(where, "must be a list")
    return given or []


def _text(where: str, content: object, optional: bool = False) -> str:
    if isinstance(content, str):
        return content
    if content is None and optional:
        return ""
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest(f"{where}.content", "is not text")
    return "".join(str(text) for text in texts)


def _call(where: str, entry: object) -> ToolCall:
    function = entry.get("function") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(function, dict):
        raise BadRequest(where, "a call needs a function")
    try:
        return ToolCall(function.get("name"), function.get("arguments"), entry.get("id") or "")  # type: ignore[arg-type]
    except InvalidRecord as error:
        raise BadRequest(where, error.problem) from error


def _tools(given: object) -> tuple[ToolSpec, ...]:
    if not isinstance(given, list):
        raise BadRequest("tools", "must be a list")
    tools = []
    for number, entry in enumerate(given):
        function = entry.get("function") if isinstance(entry, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadRequest(f"tools[{number}]", "needs a function with a name")
        about = function.get("description") or ""
        schema = function.get("parameters") or {}
        properties = schema.get("properties") if isinstance(schema, dict) else None
        names = properties if isinstance(properties, dict) else {}
        # The chat template gets the tool as it was given; the names are for those without tools.
        parameters = tuple(Parameter(name) for name in names)
        given_text = canonical_json(entry)
        tools.append(ToolSpec(function["name"], str(about), parameters, given=given_text))
    return tuple(tools)


def talk_key(messages: Sequence[Said]) -> str:
    """Identify a conversation by what was said; clients choose ids and add members of their own."""
    return digest(
        "talk",
        canonical_json(
            [[s.role, s.text, *([c.name, c.arguments] for c in s.calls)] for s in messages]
        ),
    )

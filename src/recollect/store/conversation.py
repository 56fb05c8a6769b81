"""OpenAI messages and segments: one message is one segment, in order.

Beside OpenAI's own keys a message may carry what we know of its tokens: `token_ids`, and for
an assistant message `logprobs` (null where a token was not sampled), `entropies` and, where
there are no log-probs, `sampled` (0 or 1 each). A note is a system message of `kind` "note".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from recollect.canonical import Json, canonical_json
from recollect.errors import InvalidRecord
from recollect.store.arrays import Arrays, floats_from, floats_to_list, tokens_from
from recollect.store.fields import Fields, kind_of, nearest, shorten
from recollect.store.plain import Plain
from recollect.trajectory import Floats, Mask, Trajectory
from recollect.types import Segment, SegmentKind, ToolCall
from recollect.validation import check_text

_ROLES: Mapping[str, SegmentKind] = {
    "system": SegmentKind.SYSTEM,
    "developer": SegmentKind.SYSTEM,
    "user": SegmentKind.USER,
    "assistant": SegmentKind.ASSISTANT,
    "tool": SegmentKind.TOOL,
}
_NUMBERS = ("token_ids", "logprobs", "entropies", "sampled")
_EMPTY: tuple[Json, ...] = ([], {}, "")


@dataclass(frozen=True, slots=True)
class Conversation:
    """The segments and arrays of a row, and members of messages that have no place in either."""

    segments: tuple[Segment, ...]
    arrays: Arrays
    unplaced: Plain


@dataclass(frozen=True, slots=True)
class _Message:
    """One message taken apart; its lists are as given, None where absent."""

    fields: Fields
    kind: SegmentKind
    text: str
    calls: tuple[ToolCall, ...]
    call_id: str
    name: str
    lists: dict[str, list[Any] | None]


# -- reading ------------------------------------------------------------------------------


def read_conversation(messages: list[Any], path: str) -> Conversation:
    """Turn messages into segments with whatever is known of their tokens.

    What is given for some messages must be given for all: half of the log-probs is a
    mistake, not a demo.
    """
    if not messages:
        raise InvalidRecord(path, "is empty")
    read = [_read_message(Fields(item, f"{path}[{i}]")) for i, item in enumerate(messages)]
    _check_complete(read)
    segments: list[Segment] = []
    start = 0
    for message in read:
        end = start + len(message.lists["token_ids"] or ())
        told = (message.text, message.calls, message.call_id, message.name)
        segments.append(Segment(message.kind, start, end, *told))
        start = end
    unplaced: Plain = {}
    for index, message in enumerate(read):
        rest = {k: v for k, v in message.fields.rest().items() if v not in _EMPTY}
        if rest:
            unplaced[str(index)] = rest
    return Conversation(tuple(segments), _read_arrays(read), unplaced)


def _read_message(fields: Fields) -> _Message:
    role = fields.take("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InvalidRecord(
            fields.name("role"), f"{shorten(role)} is not one of {', '.join(_ROLES)}"
        )
    kind = _ROLES[role]
    if (given := fields.take("kind", None)) is not None:
        if given != "note" or kind is not SegmentKind.SYSTEM:
            raise InvalidRecord(fields.name("kind"), 'only a system message can be a "note"')
        kind = SegmentKind.NOTE
    calls = tuple(
        _read_call(Fields(call, fields.item("tool_calls", index)))
        for index, call in enumerate(fields.items("tool_calls", []))
    )
    lists = {name: fields.optional_items(name) for name in _NUMBERS}
    may_be_silent = kind is SegmentKind.ASSISTANT and (calls or lists["token_ids"] is not None)
    text = _read_content(fields, "" if may_be_silent else None)
    call_id, name = fields.take("tool_call_id", ""), fields.take("name", "")
    for member, value in (("content", text), ("tool_call_id", call_id), ("name", name)):
        check_text(fields.name(member), value)
    _check_rest(fields)
    return _Message(fields, kind, text, calls, call_id, name, lists)


def _check_rest(fields: Fields) -> None:
    """Refuse what would be lost or was misspelt; anything else is kept with the row."""
    for member in fields.rest():
        if member == "function_call":
            raise InvalidRecord(fields.name(member), "is the old form; use tool_calls")
        if hint := nearest(member, (*_NUMBERS, "tool_calls", "tool_call_id", "content")):
            problem = f"is not a known key; did you mean {hint!r}?"
            raise InvalidRecord(fields.name(member), problem)


def _read_content(fields: Fields, default: str | None) -> str:
    """Read text, or text parts put together."""
    content = fields.take("content") if default is None else fields.take("content", default)
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        problem = f"expected text or text parts, got {kind_of(content)}"
        raise InvalidRecord(fields.name("content"), problem)
    texts: list[str] = []
    for index, item in enumerate(content):
        part = Fields(item, fields.item("content", index))
        kind, text = part.take("type"), part.take("text", None)
        if kind != "text" or not isinstance(text, str):
            problem = f"a part of type {shorten(kind)} is not text, and only text can be kept"
            raise InvalidRecord(part.name("type"), problem)
        part.refuse_rest()
        texts.append(text)
    return "".join(texts)


def _read_call(fields: Fields) -> ToolCall:
    if (kind := fields.take("type", "function")) != "function":
        raise InvalidRecord(fields.name("type"), f"{shorten(kind)} is not a function call")
    function = Fields(fields.take("function"), fields.name("function"))
    arguments = function.take("arguments")
    if isinstance(arguments, dict):
        arguments = spelled(function.name("arguments"), arguments)
    with function.located():
        call = ToolCall(function.take("name"), arguments, fields.take("id", ""))
    function.refuse_rest()
    fields.take("index", None)  # a leftover of streaming: the position in this very list
    fields.refuse_rest()
    return call


def spelled(field: str, value: object) -> str:
    """Spell a value as JSON; what it cannot say (1e999, a date of Parquet's) is refused by name."""
    try:
        return canonical_json(value)
    except ValueError:
        raise InvalidRecord(field, "holds a number that is not finite") from None
    except TypeError as error:
        raise InvalidRecord(field, f"holds what JSON cannot say ({error})") from None


def _check_complete(messages: list[_Message]) -> None:
    """Refuse rows that say something of their tokens, but not all."""
    for name in ("token_ids", "logprobs", "entropies"):
        _check_all_or_none(messages, name)
    for message in messages:
        tokens = message.lists["token_ids"]
        for name in ("logprobs", "entropies", "sampled"):
            values = message.lists[name]
            if values is None:
                continue
            if message.kind is not SegmentKind.ASSISTANT:
                problem = "belongs to assistant messages: nothing else is sampled"
                raise InvalidRecord(message.fields.name(name), problem)
            if tokens is None:
                raise InvalidRecord(message.fields.name("token_ids"), f"is missing beside {name}")
            if len(values) != len(tokens):
                problem = f"has {len(values)} values for {len(tokens)} token_ids"
                raise InvalidRecord(message.fields.name(name), problem)


def _check_all_or_none(messages: list[_Message], name: str) -> None:
    given = next((m for m in messages if m.lists[name] is not None), None)
    for message in messages if given else ():
        expected = name == "token_ids" or message.kind is SegmentKind.ASSISTANT
        if expected and given and message.lists[name] is None:
            problem = f"is missing, but {given.fields.name(name)} is given: give all or none"
            raise InvalidRecord(message.fields.name(name), problem)


def _read_arrays(messages: list[_Message]) -> Arrays:
    tokens = [tokens_from(m.fields.name("token_ids"), m.lists["token_ids"] or []) for m in messages]
    masks = [_read_mask(m, t.size) for m, t in zip(messages, tokens, strict=True)]
    return Arrays(
        np.concatenate(tokens),
        np.concatenate(masks),
        _read_floats(messages, masks, "logprobs"),
        _read_floats(messages, masks, "entropies"),
    )


def _read_mask(message: _Message, size: int) -> Mask:
    """Tell which tokens of a message were sampled: as said, or those that have a log-prob."""
    said, logprobs = message.lists["sampled"], message.lists["logprobs"]
    if said is not None:
        if not all(type(flag) in (int, bool) and flag in (0, 1) for flag in said):
            raise InvalidRecord(message.fields.name("sampled"), "expected 0 or 1 for each token")
        return np.array(said, dtype=np.bool_)
    if logprobs is not None:
        return np.array([value is not None for value in logprobs], dtype=np.bool_)
    return np.zeros(size, dtype=np.bool_)


def _read_floats(messages: list[_Message], masks: list[Mask], name: str) -> Floats | None:
    """Put together the values of the sampled tokens; None where no message gives any."""
    found: list[Floats] = []
    for message, mask in zip(messages, masks, strict=True):
        values = message.lists[name]
        if values is None:
            continue
        if [value is not None for value in values] != mask.tolist():
            problem = "must have a number for each sampled token and null for each other"
            raise InvalidRecord(message.fields.name(name), problem)
        numbers = [value for value in values if value is not None]
        found.append(floats_from(message.fields.name(name), numbers))
    return np.concatenate(found) if found else None


# -- writing ------------------------------------------------------------------------------


def write_conversation(t: Trajectory, tokens: bool) -> list[Json]:
    """Turn segments into messages, with what is known of their tokens if asked."""
    any_numbers = t.tokens.size > 0 or t.logprobs is not None or t.entropies is not None
    messages: list[Json] = []
    seen = 0
    for segment in t.segments:
        message = _write_message(segment)
        mask = t.sampled[segment.start : segment.end]
        if tokens and any_numbers:
            message["token_ids"] = t.tokens[segment.start : segment.end].tolist()
            if segment.kind is SegmentKind.ASSISTANT:
                message |= _write_numbers(t, mask, seen)
        seen += int(np.count_nonzero(mask))
        messages.append(message)
    return messages


def _write_message(s: Segment) -> Plain:
    note = s.kind is SegmentKind.NOTE
    message: Plain = {"role": "system" if note else s.kind.value, "content": s.text}
    if note:
        message["kind"] = "note"
    if s.calls:
        message["content"] = s.text or None
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in s.calls
        ]
    if s.call_id:
        message["tool_call_id"] = s.call_id
    if s.name:
        message["name"] = s.name
    return message


def _write_numbers(t: Trajectory, mask: Mask, seen: int) -> Plain:
    """Write log-probs and entropies with null for tokens that were not sampled."""
    numbers: Plain = {}
    for name, values in (("logprobs", t.logprobs), ("entropies", t.entropies)):
        if values is not None:
            left = iter(floats_to_list(values[seen : seen + int(np.count_nonzero(mask))]))
            numbers[name] = [next(left) if sampled else None for sampled in mask.tolist()]
    if t.logprobs is None and mask.any():
        numbers["sampled"] = mask.astype(int).tolist()
    return numbers

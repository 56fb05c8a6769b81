"""OpenAI-messages JSON lines, in and out.

    {"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}],"reward":1}

A row without log-probs is a demo. One whose messages carry `token_ids` and `logprobs` (see
`recollect.store.conversation`), with `policy_version`, `tokenizer` and `sampling` beside
them, is a fresh row, or a guided one if it names `notes`. Nothing is made up: what is
missing is refused, and members we have no place for stay with the row, in `extra`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from recollect.canonical import Json, canonical_json, digest
from recollect.errors import BadFile, InvalidRecord
from recollect.ledger import Run
from recollect.store import plain
from recollect.store.conversation import (
    Conversation,
    read_conversation,
    spelled,
    write_conversation,
)
from recollect.store.fields import Fields, kind_of, nearest, shorten
from recollect.store.incoming import BadLine, Incoming, Limits
from recollect.store.lines import Line, convert, read_lines
from recollect.store.outgoing import Outgoing
from recollect.trajectory import Trajectory
from recollect.types import (
    NoteSpan,
    Origin,
    RunId,
    SegmentKind,
    StopReason,
    Task,
    group_id,
)
from recollect.validation import check_count, check_finite, check_id, check_text

# A misspelt one of these would change what the row means; other unknown keys are kept.
_ESSENTIAL = (
    *("messages", "reward", "reward_parts", "success", "task", "tools", "policy_version"),
    *("tokenizer", "sampling"),
)


@dataclass(frozen=True, slots=True)
class Unsaid:
    """What rows get that do not say it themselves. Without `reward`, such rows are refused."""

    run: RunId
    environment: str
    reward: float | None
    success_threshold: float

    def __post_init__(self) -> None:
        check_id("run", self.run)
        check_text("environment", self.environment)
        if not self.environment:
            raise InvalidRecord("environment", "is empty")
        if self.reward is not None:
            check_finite("default_reward", self.reward)
        check_finite("success_threshold", self.success_threshold)


class Occurrences:
    """Counts equal rows of one file: equal attempts are still different attempts.

    Keeps about 100 bytes for each different row that names no id.
    """

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def id_of(self, *parts: str) -> str:
        """Name a row by its content, and from its second occurrence on by its number too."""
        first = digest("messages", *parts)
        key = int(first[:16], 16)
        earlier = self._seen.get(key, 0)
        self._seen[key] = earlier + 1
        return digest("messages", *parts, str(earlier)) if earlier else first


# -- reading ------------------------------------------------------------------------------


def read(
    path: Path, file: BufferedReader, limits: Limits, unsaid: Unsaid
) -> Iterator[Incoming | BadLine]:
    """Read a file of one conversation per line."""
    lines = read_lines(path, file, limits)
    first = next(lines, None)
    if first is None:
        raise BadFile(path, "it is empty")
    lines = chain([first], lines)
    seen = Occurrences()
    return convert(lines, limits, lambda fields, line: read_row(fields, line, limits, unsaid, seen))


def read_row(
    fields: Fields, line: Line, limits: Limits, unsaid: Unsaid, seen: Occurrences
) -> Incoming:
    """Read one conversation, whatever line it stands on; `seen` counts equal ones of its file."""
    whole = fields.rest()
    messages = fields.items("messages", most=limits.max_messages)
    conversation = read_conversation(messages, "messages")
    task = _read_task(fields, conversation, unsaid)
    values = _read_facts(fields, conversation, unsaid)
    values["run"] = run = fields.take("run", unsaid.run)
    values["step"] = step = fields.take("step", 0)
    check_id("run", run)
    check_count("step", step)
    values["group"] = fields.take("group", group_id(run, step, task.key))
    values["id"] = _read_id(fields)
    values["extra"] = _read_extra(fields, conversation)
    if values["id"] is None:
        values["id"] = seen.id_of(run, unsaid.environment, spelled("line", whole))
    trajectory = Trajectory(task=task.key, **values)
    return Incoming(
        line.number,
        line.size,
        default_run=Run(run, config={"imported": "messages"}),
        tasks=(task,),
        trajectories=(trajectory,),
    )


def _read_task(fields: Fields, conversation: Conversation, unsaid: Unsaid) -> Task:
    """Read a task: an id, an object, or, where there is none, whatever was asked."""
    given = fields.take("task", None)
    if isinstance(given, dict):
        members = Fields(given, "task")
        with members.located():
            task = plain.task_from(members, unsaid.environment)
        members.refuse_rest()
        return task
    if given is None:
        kinds = [segment.kind for segment in conversation.segments]
        answer = kinds.index(SegmentKind.ASSISTANT) if SegmentKind.ASSISTANT in kinds else None
        prompt = conversation.segments[:answer]
        asked = [[s.kind.value, s.name, s.text] for s in prompt if s.kind is not SegmentKind.NOTE]
        query = next((s.text for s in prompt if s.kind is SegmentKind.USER), "")
        return Task(unsaid.environment, digest("prompt", canonical_json(asked)), query=query)
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        raise InvalidRecord("task", f"expected an id or an object, got {shorten(given)}")
    return Task(unsaid.environment, str(given))


def _read_facts(fields: Fields, conversation: Conversation, unsaid: Unsaid) -> dict[str, Any]:
    """Read what a trajectory is made of, apart from its names and `extra`."""
    arrays = conversation.arrays
    notes = _read_notes(fields, conversation)
    version = fields.take("policy_version", None)
    if version is not None and arrays.logprobs is None:
        problem = "is given, but the messages have no logprobs; without them a row is a demo"
        raise InvalidRecord("policy_version", problem)
    sampled = Origin.GUIDED if notes else Origin.FRESH
    reward = plain.reward_from(fields, unsaid.reward)
    return {
        "origin": fields.choice(
            "origin", Origin, Origin.DEMO if arrays.logprobs is None else sampled
        ),
        "policy_version": version,
        "tokens": arrays.tokens,
        "sampled": arrays.sampled,
        "logprobs": arrays.logprobs,
        "entropies": arrays.entropies,
        "segments": conversation.segments,
        "reward": reward,
        "success": fields.take("success", reward.value >= unsaid.success_threshold),
        "stop": fields.choice("stop", StopReason, StopReason.UNKNOWN),
        "sampling": plain.sampling_from(fields),
        "notes": notes,
        "tokenizer": fields.take("tokenizer")
        if arrays.tokens.size
        else fields.take("tokenizer", ""),
        "environment_version": fields.take("environment_version", "1"),
        "reward_version": fields.take("reward_version", "1"),
        "started": fields.number("started", 0.0),
        "finished": fields.number("finished", 0.0),
    }


def _read_notes(fields: Fields, conversation: Conversation) -> tuple[NoteSpan, ...]:
    """Read which note stands in which message; its span is the message's."""
    spans: list[NoteSpan] = []
    for index, item in enumerate(fields.items("notes", [])):
        members = Fields(item, fields.item("notes", index))
        note, message = members.take("note"), members.take("message")
        members.refuse_rest()
        known = isinstance(message, int) and 0 <= message < len(conversation.segments)
        if not known or conversation.segments[message].kind is not SegmentKind.NOTE:
            problem = f"{shorten(message)} is not the position of a note among the messages"
            raise InvalidRecord(members.name("message"), problem)
        segment = conversation.segments[message]
        with members.located():
            spans.append(NoteSpan(note, segment.start, segment.end))
    return tuple(spans)


def _read_id(fields: Fields) -> str | None:
    given = fields.take("id", None)
    number = isinstance(given, int) and not isinstance(given, bool)
    return str(given) if number else given


def _read_extra(fields: Fields, conversation: Conversation) -> dict[str, Any]:
    """Keep what has no place of its own: tools, unknown members of the row and its messages."""
    extra = fields.take("extra", {})
    if not isinstance(extra, dict):
        raise InvalidRecord("extra", f"expected an object, got {kind_of(extra)}")
    found: dict[str, Any] = {"tools": fields.optional_items("tools")}
    for member, value in fields.rest().items():
        if hint := nearest(member, _ESSENTIAL):
            raise InvalidRecord(fields.name(member), f"is not a known key; did you mean {hint!r}?")
        found[member] = value
    found["messages"] = conversation.unplaced or None
    kept = {member: value for member, value in found.items() if value is not None}
    for member in kept.keys() & extra.keys():
        raise InvalidRecord(fields.name(member), "is given twice, once inside extra")
    return {**extra, **kept}


# -- writing ------------------------------------------------------------------------------


def write(rows: Iterable[Outgoing], sink: BinaryIO, tokens: bool) -> None:
    """Write one conversation per line; without `tokens` they come back as text-only demos."""
    for row in rows:
        line = canonical_json(_row_to_plain(row.trajectory, row.task, tokens))
        sink.write(line.encode("utf-8") + b"\n")


def _row_to_plain(t: Trajectory, task: Task, tokens: bool) -> plain.Plain:
    line: plain.Plain = {
        "id": t.id,
        "messages": write_conversation(t, tokens),
        "task": dict(plain.task_to_plain(task)),
        "run": t.run,
        "step": t.step,
        "group": t.group,
        "reward": t.reward.value,
        "success": t.success,
        "stop": t.stop.value,
        "environment_version": t.environment_version,
        "reward_version": t.reward_version,
        "started": t.started,
        "finished": t.finished,
    }
    if tokens:
        line["origin"] = t.origin.value
        line["policy_version"] = t.policy_version
        line["tokenizer"] = t.tokenizer
        line["sampling"] = plain.sampling_to_plain(t.sampling)
    extra = dict(t.extra)
    if isinstance(extra.get("tools"), list):
        line["tools"] = extra.pop("tools")
    optional: plain.Plain = {
        "reward_parts": dict(t.reward.parts),
        "notes": _notes_to_list(t),
        "extra": extra,
    }
    return line | {name: value for name, value in optional.items() if value}


def _notes_to_list(t: Trajectory) -> list[Json]:
    places = {
        (segment.start, segment.end): index
        for index, segment in reversed(list(enumerate(t.segments)))
        if segment.kind is SegmentKind.NOTE
    }
    return [{"note": span.note, "message": places[span.start, span.end]} for span in t.notes]

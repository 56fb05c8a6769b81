"""The parts that a trajectory is made of, and the ids that hold everything together.

Each record is frozen and checks itself at construction, so whoever holds one may trust it.
The trajectory itself is in `recollect.trajectory`, what a run writes down in
`recollect.ledger`. Every word has one meaning: docs/words.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NewType

from recollect.canonical import digest
from recollect.errors import InvalidRecord
from recollect.validation import check_count, check_finite, check_id, check_text

TaskKey = NewType("TaskKey", str)
TrajectoryId = NewType("TrajectoryId", str)
GroupId = NewType("GroupId", str)
RunId = NewType("RunId", str)
NoteId = NewType("NoteId", str)


class SegmentKind(str, Enum):
    """Who wrote a span of a trajectory. Only sampled assistant tokens can train."""

    SYSTEM = "system"
    USER = "user"
    NOTE = "note"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Origin(str, Enum):
    """Where a stored row came from: sampled, sampled with a note, or brought in from outside."""

    FRESH = "fresh"
    GUIDED = "guided"
    DEMO = "demo"


class StopReason(str, Enum):
    """Why an episode ended."""

    DONE = "done"  # the environment said so
    TOKEN_LIMIT = "token_limit"
    TURN_LIMIT = "turn_limit"
    TIME_LIMIT = "time_limit"
    UNKNOWN = "unknown"  # rows from outside that do not say


class Status(str, Enum):
    """Whether a stored row may be drawn. Only LIVE rows are."""

    LIVE = "live"
    EVICTED = "evicted"  # lost its place under a budget; its bytes stay until somebody prunes
    BANNED = "banned"  # a person took it out
    QUARANTINED = "quarantined"  # damaged or incompatible


class Action(str, Enum):
    """What can happen to a stored row after it was written."""

    EVICT = "evict"
    BAN = "ban"
    UNBAN = "unban"
    QUARANTINE = "quarantine"
    RELEASE = "release"
    PIN = "pin"
    UNPIN = "unpin"


class NoteStatus(str, Enum):
    """Whether a note may be put into prompts. Only LIVE ones are."""

    LIVE = "live"
    RETIRED = "retired"  # it did not help
    BANNED = "banned"  # a person took it out


class NoteAction(str, Enum):
    """What can happen to a note after it was written."""

    BAN = "ban"
    UNBAN = "unban"
    RETIRE = "retire"
    REVIVE = "revive"


class LinkKind(str, Enum):
    """How a note and a trajectory belong together."""

    SOURCE = "source"  # the note was distilled from it
    GUIDED = "guided"  # the note was in its prompt


@dataclass(frozen=True, slots=True)
class Task:
    """One problem instance of one environment.

    `key` hashes (environment, version, id, query): synthetic variants that reuse an id but
    change the query, or tasks of a changed environment, never collide.
    """

    environment: str
    id: str
    version: str = "1"
    query: str = ""
    domain: str = ""
    split: str = "train"
    level: int = 0
    key: TaskKey = field(init=False)

    def __post_init__(self) -> None:
        for name in ("environment", "id", "version", "query", "domain", "split"):
            check_text(name, getattr(self, name))
        if not self.environment or not self.id:
            raise InvalidRecord("id" if self.environment else "environment", "is empty")
        check_count("level", self.level)
        if not self.domain:
            object.__setattr__(self, "domain", self.environment)
        key = digest("task", self.environment, self.version, self.id, self.query)
        object.__setattr__(self, "key", TaskKey(key))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A structured tool call, kept as the view that messages need; the tokens are the truth."""

    name: str
    arguments: str  # JSON text, never parsed by us
    id: str = ""

    def __post_init__(self) -> None:
        for name in ("name", "arguments", "id"):
            check_text(f"tool_calls.{name}", getattr(self, name))


@dataclass(frozen=True, slots=True)
class Segment:
    """A span [start, end) of a trajectory with one author.

    `text`, `calls`, `call_id` and `name` are a readable view recorded with the tokens. They
    serve people and message exports and are never tokenised to train a row that has tokens.
    """

    kind: SegmentKind
    start: int
    end: int
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.kind, SegmentKind):
            raise InvalidRecord("segments.kind", f"{self.kind!r} is not a segment kind")
        check_count("segments.start", self.start)
        check_count("segments.end", self.end)
        for name in ("text", "call_id", "name"):
            check_text(f"segments.{name}", getattr(self, name))
        if not isinstance(self.calls, tuple) or not all(
            isinstance(call, ToolCall) for call in self.calls
        ):
            raise InvalidRecord("segments.calls", "must be a tuple of tool calls")


@dataclass(frozen=True, slots=True)
class NoteSpan:
    """Where a note stands in the prompt, as token positions [start, end)."""

    note: NoteId
    start: int
    end: int

    def __post_init__(self) -> None:
        check_id("notes.note", self.note)
        check_count("notes.start", self.start)
        check_count("notes.end", self.end)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens were drawn. Recorded log-probs are those of the sampler *after* temperature."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0 = off
    max_tokens: int = 0  # 0 = no limit of its own

    def __post_init__(self) -> None:
        check_finite("sampling.temperature", self.temperature)
        check_finite("sampling.top_p", self.top_p)
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise InvalidRecord("sampling", "needs temperature >= 0 and 0 < top_p <= 1")
        object.__setattr__(self, "temperature", float(self.temperature))
        object.__setattr__(self, "top_p", float(self.top_p))
        check_count("sampling.top_k", self.top_k)
        check_count("sampling.max_tokens", self.max_tokens)


@dataclass(frozen=True, slots=True)
class Reward:
    """The number that trains, and the named parts it was made of."""

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_finite("reward", self.value)
        if not isinstance(self.parts, Mapping):
            raise InvalidRecord("reward.parts", "must map names to numbers")
        for name, part in self.parts.items():
            check_text("reward.parts", name)
            check_finite(f"reward.parts.{name}", part)
        object.__setattr__(self, "value", float(self.value))
        object.__setattr__(self, "parts", {name: float(p) for name, p in self.parts.items()})


def trajectory_id(run: RunId, step: int, task: TaskKey, row: int) -> TrajectoryId:
    """Name the row-th attempt at a task in a step: the same work redone gets the same id."""
    return TrajectoryId(digest("trajectory", run, step, task, row))


def group_id(run: RunId, step: int, task: TaskKey, part: int = 0) -> GroupId:
    """Name the group of a task in a step; `part` tells two groups of one task apart."""
    return GroupId(digest("group", run, step, task, part))

"""The contract between an environment and whoever plays it.

Text goes in, messages come out: an environment never sees tokens, and the model's raw text
reaches it unparsed. `recollect env check NAME` proves that an implementation keeps the
promises written here; `recollect.envs.dialogue` makes a new one about thirty lines long.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from recollect.canonical import Json
from recollect.errors import InvalidRecord
from recollect.types import SegmentKind, StopReason, Task
from recollect.validation import check_count, check_finite, check_text

ParameterType = Literal["string", "integer", "number", "boolean"]

# Assistant text comes from the agent and notes from the note bank; an environment writes the rest.
_KINDS = (SegmentKind.SYSTEM, SegmentKind.USER, SegmentKind.TOOL)


@dataclass(frozen=True, slots=True)
class Message:
    """A text the agent gets to read. `name` says which tool answered, if one did."""

    kind: SegmentKind
    text: str
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise InvalidRecord("message.kind", f"{self.kind!r} is not system, user or tool")
        check_text("message.text", self.text)
        check_text("message.name", self.name)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool. `choices` lists the allowed values, if they are few."""

    name: str
    type: ParameterType = "string"
    description: str = ""
    choices: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the agent sees it.

    `given` is the JSON text of a schema that somebody else wrote; `schema` gives it back unchanged.
    """

    name: str
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    given: str = ""

    def signature(self) -> str:
        """Write the tool in a few characters, for prompts that must be short: `seat(id,seat)`."""
        return f"{self.name}({','.join(p.name for p in self.parameters)})"

    def schema(self) -> dict[str, Json]:
        """Write the tool as the JSON schema that chat templates and model servers expect."""
        if self.given:
            given: dict[str, Json] = json.loads(self.given)
            return given
        properties: dict[str, Json] = {}
        for p in self.parameters:
            entry: dict[str, Json] = {"type": p.type, "description": p.description}
            if p.choices:
                entry["enum"] = list(p.choices)
            properties[p.name] = entry
        required: list[Json] = [p.name for p in self.parameters if p.required]
        parameters: dict[str, Json] = {
            "type": "object",
            "properties": properties,
            "required": required,
        }
        function: dict[str, Json] = {
            "name": self.name,
            "description": self.description,
            "parameters": parameters,
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Opening:
    """What the agent reads before its first word.

    `messages` do not describe the tools. Either the chat template does, from `tools`, or
    `recollect.envs.tools.with_signatures` adds them to the system text: never both.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """The environment's answer to one assistant text; `stop` says why it was the last one."""

    messages: tuple[Message, ...] = ()
    stop: StopReason | None = None

    @property
    def done(self) -> bool:
        """Tell whether the episode is over. The messages of a last turn need not be shown."""
        return self.stop is not None


@dataclass(frozen=True, slots=True)
class Score:
    """What an attempt was worth: the number that trains, the verdict, and named parts to look at.

    `success` is the environment's one predicate; nobody derives it from the reward again.
    """

    reward: float
    success: bool
    parts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_finite("score.reward", self.reward)
        if not isinstance(self.success, bool):
            raise InvalidRecord("score.success", f"{self.success!r} is neither True nor False")
        for name, part in self.parts.items():
            check_text("score.parts", name)
            check_finite(f"score.parts.{name}", part)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds an environment keeps: assistant texts per episode, characters per message."""

    turns: int = 8
    chars: int = 4000

    def __post_init__(self) -> None:
        check_count("limits.turns", self.turns)
        check_count("limits.chars", self.chars)
        if not self.turns or not self.chars:
            raise InvalidRecord("limits", "turns and chars must be at least 1")


class Episode(Protocol):
    """One attempt at one task.

    Promises: the state belongs to this episode alone; `respond` accepts any text, however
    broken, and says what is wrong in a message instead of raising; the episode ends by itself
    after at most `Limits.turns` responses, then with stop TURN_LIMIT.
    """

    @property
    def opening(self) -> Opening:
        """The messages and tools to begin with; the same object state whenever it is read."""
        ...

    def respond(self, text: str) -> Turn:
        """Take the assistant's raw text and answer it. Raises EpisodeOver after the last turn."""
        ...

    def score(self) -> Score:
        """Judge the attempt so far. Changes nothing; the same answer when asked again.

        May be asked before the end, because a token or time limit can cut an episode short.
        """
        ...

    def close(self) -> None:
        """Let go of whatever the episode holds. May be called twice, and at any moment."""
        ...


class Environment(Protocol):
    """A source of tasks and of episodes of them.

    Promises: equal (task, seed, assistant texts) give equal messages and an equal score, in
    any process and in any order of episodes; all chance comes from the seed; starting an
    episode never changes what another one sees; no two splits hold a task of the same content
    (its query, unless the environment `OffersContent`); `version` changes whenever a task's
    meaning or its score does.
    """

    @property
    def name(self) -> str:
        """The name its tasks carry in `Task.environment`."""
        ...

    @property
    def version(self) -> str:
        """Part of every task's key, so rows of different versions are never mixed."""
        ...

    @property
    def domains(self) -> tuple[str, ...]:
        """The values `Task.domain` takes."""
        ...

    @property
    def splits(self) -> tuple[str, ...]:
        """The names `tasks` accepts."""
        ...

    @property
    def limits(self) -> Limits:
        """The bounds every episode keeps."""
        ...

    def tasks(self, split: str) -> Iterator[Task]:
        """Yield the split's tasks, finitely many, each once, always in the same order, lazily."""
        ...

    def start(self, task: Task, seed: int) -> Episode:
        """Begin a fresh attempt at a task. The seed decides whatever is left to chance in it."""
        ...


@runtime_checkable
class OffersGold(Protocol):
    """An environment that knows how each of its tasks is solved."""

    def gold(self, task: Task) -> tuple[str, ...]:
        """Give assistant texts that, played in order with any seed, end in success."""
        ...


@runtime_checkable
class OffersSelection(Protocol):
    """An environment that finds tasks of some domains and levels without making the others."""

    def select(
        self, split: str, domains: Sequence[str] | None, levels: Sequence[int] | None
    ) -> Iterator[Task]:
        """Yield those of `tasks(split)` that are of the domains and levels (None: all)."""
        ...


@runtime_checkable
class OffersTask(Protocol):
    """An environment that makes a task from its id, without making the others."""

    def task(self, id: str) -> Task:
        """Make the task of an id; UnknownTask where there is none."""
        ...


@runtime_checkable
class OffersContent(Protocol):
    """An environment whose tasks are more than their query, such as a hidden database."""

    def content(self, task: Task) -> str:
        """Identify what a task is about: equal contents are the same problem."""
        ...


@runtime_checkable
class OffersConstants(Protocol):
    """An environment that knows which answers could win without reading the task."""

    def constants(self, domain: str) -> Mapping[str, tuple[str, ...]]:
        """Name such scripts of assistant texts; their scores are reported as floors."""
        ...


@runtime_checkable
class OffersKinds(Protocol):
    """An environment whose tasks are of nameable kinds, so that some can be left out."""

    def kinds(self, domain: str, level: int) -> tuple[str, ...]:
        """List the kinds of task that a domain has at a level."""
        ...

    def kind(self, task: Task) -> str:
        """Name the kind of a task."""
        ...


@runtime_checkable
class OffersLeftOut(Protocol):
    """An environment that has tasks which it does not play."""

    def left_out(self) -> Mapping[str, str]:
        """Name them by id, with the reason for each."""
        ...


@dataclass(frozen=True, slots=True)
class Proof:
    """A promise of an environment's own. `run` gives how many were tried, and what was found.

    What was found is a pair: a task's id, or "" for the environment as a whole, and the problem.
    """

    name: str
    promise: str
    run: Callable[[], tuple[int, list[tuple[str, str]]]]


@runtime_checkable
class OffersProofs(Protocol):
    """An environment with promises beyond the contract, which `recollect env check` tries."""

    def proofs(self) -> tuple[Proof, ...]:
        """List the promises."""
        ...


def system(text: str) -> Message:
    """Make a system message."""
    return Message(SegmentKind.SYSTEM, text)


def user(text: str) -> Message:
    """Make a message from the user."""
    return Message(SegmentKind.USER, text)


def tool(text: str, name: str = "") -> Message:
    """Make a message with a tool's answer."""
    return Message(SegmentKind.TOOL, text, name)

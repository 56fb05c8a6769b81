"""One prompt, one answer, one reward: a JSONL file of prompts and a Python function to judge.

Each line is an object with a `prompt`: a text, or a list of `{"role", "content"}` messages
of system and user. All its other fields are handed to the reward function, which is named by
the user as `module:function` or `path/to/file.py:function` and never by the data.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from recollect.canonical import Json, canonical_json, digest, is_plain_json, strict_json
from recollect.envs.base import Limits, Message, Opening, Score, Turn, system, user
from recollect.envs.split import SPLITS, split_of
from recollect.envs.trusted import load_object
from recollect.errors import BadDataset, BadEnvironment, EpisodeOver, RewardFailed, UnknownTask
from recollect.types import StopReason, Task

MAX_LINE_CHARS = 1_000_000

# (the assistant's text, the line's fields) -> reward
RewardFunction: TypeAlias = "Callable[[str, Mapping[str, Json]], float]"

_ROLES = {"system": system, "user": user}
_USUAL_NAME, _USUAL_THRESHOLD = "reward", 0.5


@dataclass(frozen=True, slots=True)
class Prompt:
    """One usable line of the file."""

    task: Task
    messages: tuple[Message, ...]
    fields: Mapping[str, Json]


class SingleTurn:
    """Prompts from a file, judged by a function.

    A task's id is the line's own id (or its number) and a few digits of a hash of all its
    fields: a line with a corrected answer is a new task, and the others stay what they were.
    What the function computes cannot be hashed: raise `version` when you change that. A function
    of another name than `reward`, or another threshold, is part of the version by itself.
    """

    def __init__(
        self,
        path: str | Path,
        reward: str | RewardFunction,
        threshold: float = _USUAL_THRESHOLD,
        split_field: str | None = None,
        id_field: str = "id",
        system_text: str = "",
        name: str = "",
        version: str = "1",
    ) -> None:
        """Read and check the whole file; a bad line is refused with its number.

        Success is a reward of at least `threshold`. Splits come from `split_field` if given,
        else from a hash of the prompt (70 % train, 10 % dev, 20 % test).
        """
        self._path = Path(path)
        self._judge = _reward_function(reward)
        self._threshold = threshold
        self._split_field = split_field
        self._id_field = id_field
        self._system = system_text
        self.name = name or f"single_turn:{self._path.stem}"
        self.version = version + _mark(self._judge, threshold)
        self._prompts = self._prepare(self._read())
        found = {p.task.split for p in self._prompts.values()}
        self.splits = tuple(sorted(found)) if split_field else SPLITS
        self.domains = (self.name,)
        longest = max(len(m.text) for p in self._prompts.values() for m in p.messages)
        self.limits = Limits(turns=1, chars=max(longest, 1))

    def _read(self) -> list[tuple[int, dict[str, Json]]]:
        if not self._path.is_file():
            raise BadEnvironment("single_turn", f"there is no file {self._path}")
        lines = []
        with self._path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            number = 0
            while line := file.readline(MAX_LINE_CHARS + 1):
                number += 1
                if len(line) > MAX_LINE_CHARS:
                    why = f"longer than {MAX_LINE_CHARS:,} characters"
                    raise BadDataset(self._path, number, why)
                if line.strip():
                    lines.append((number, self._parse(number, line)))
        if not lines:
            raise BadEnvironment("single_turn", f"{self._path} holds no prompts")
        return lines

    def _parse(self, number: int, line: str) -> dict[str, Json]:
        try:
            fields = strict_json(line)
            plain = is_plain_json(fields)
        except (ValueError, RecursionError) as error:
            why = f"not valid JSON ({error})"
            raise BadDataset(self._path, number, why, "One JSON object per line.") from None
        if not isinstance(fields, dict):
            raise BadDataset(self._path, number, "not a JSON object", "One object per line.")
        if not plain:
            raise BadDataset(self._path, number, "holds bytes that are not UTF-8 text")
        return fields

    def _prepare(self, lines: list[tuple[int, dict[str, Json]]]) -> dict[str, Prompt]:
        prompts: dict[str, Prompt] = {}
        where: dict[str, int] = {}
        for number, fields in lines:
            messages = self._messages(number, fields)
            own = fields.get(self._id_field, number)
            if not isinstance(own, str | int) or own == "":
                raise BadDataset(self._path, number, f"{self._id_field!r} is not an id")
            if str(own) in where:
                why = f"the id {own!r} is also on line {where[str(own)]}"
                raise BadDataset(self._path, number, why, "Ids must be different.")
            where[str(own)] = number
            id = f"{own}@{digest(canonical_json(fields))[:6]}"
            query = "\n".join(m.text for m in messages)
            split = self._split(number, fields, query)
            task = Task(self.name, id, self.version, query, split=split)
            prompts[id] = Prompt(task, messages, fields)
        return prompts

    def _messages(self, number: int, fields: Mapping[str, Json]) -> tuple[Message, ...]:
        prompt = fields.get("prompt")
        head = (system(self._system),) if self._system else ()
        if isinstance(prompt, str) and prompt:
            return (*head, user(prompt))
        if not isinstance(prompt, list) or not prompt:
            why = "has no prompt" if prompt is None else "the prompt is not a text or messages"
            raise BadDataset(self._path, number, why, 'Like: {"prompt": "2+2?", "answer": "4"}')
        return (*head, *(self._message(number, entry) for entry in prompt))

    def _message(self, number: int, entry: Json) -> Message:
        role = entry.get("role") if isinstance(entry, dict) else None
        content = entry.get("content") if isinstance(entry, dict) else None
        if not isinstance(role, str) or role not in _ROLES or not isinstance(content, str):
            why = "a message needs a role (system or user) and a content text"
            raise BadDataset(self._path, number, why)
        return _ROLES[role](content)

    def _split(self, number: int, fields: Mapping[str, Json], query: str) -> str:
        if self._split_field is None:
            return split_of(query)
        split = fields.get(self._split_field)
        if not isinstance(split, str) or not split:
            raise BadDataset(self._path, number, f"no split in the field {self._split_field!r}")
        return split

    def tasks(self, split: str) -> Iterator[Task]:
        """Yield the prompts of a split in the order of the file."""
        if split not in self.splits:
            raise UnknownTask(self.name, "split", split, self.splits)
        return (p.task for p in self._prompts.values() if p.task.split == split)

    def start(self, task: Task, seed: int) -> SingleTurnEpisode:
        """Begin an attempt; there is nothing left to chance in it."""
        prompt = self._prompts.get(task.id)
        if prompt is None or prompt.task.key != task.key:
            raise UnknownTask(self.name, "task", task.id)
        return SingleTurnEpisode(prompt, self._judge, self._threshold)


class SingleTurnEpisode:
    """One answer to one prompt."""

    def __init__(self, prompt: Prompt, judge: RewardFunction, threshold: float) -> None:
        self._prompt = prompt
        self._judge = judge
        self._threshold = threshold
        self._answer: str | None = None
        self._score: Score | None = None
        self._closed = False

    @property
    def opening(self) -> Opening:
        """The prompt."""
        return Opening(self._prompt.messages)

    def respond(self, text: str) -> Turn:
        """Take the answer; it is also the end."""
        if self._closed or self._answer is not None:
            raise EpisodeOver(self._prompt.task.id)
        self._answer = text
        self._score = None  # whoever asked before the answer was told of an empty one
        return Turn((), StopReason.DONE)

    def score(self) -> Score:
        """Call the reward function, once for an answer; none is judged as an empty one.

        Raises RewardFailed, with the task's id, if the function raises or returns anything
        but a finite number: such an attempt must not train.
        """
        if self._score is None:
            reward = self._call()
            self._score = Score(reward, reward >= self._threshold)
        return self._score

    def _call(self) -> float:
        id = self._prompt.task.id
        try:
            value: object = self._judge(self._answer or "", self._prompt.fields)
        except Exception as error:  # a user's code: the reward boundary
            raise RewardFailed(id, f"{type(error).__name__}: {error}") from error
        try:
            reward = float(value) if isinstance(value, int | float) else math.nan
        except OverflowError as error:
            raise RewardFailed(id, "it returned a whole number beyond every float") from error
        if not math.isfinite(reward):
            raise RewardFailed(id, f"it returned {value!r:.60}, not a finite number")
        return reward

    def close(self) -> None:
        """Refuse an answer from now on."""
        self._closed = True


def _reward_function(reward: str | RewardFunction) -> RewardFunction:
    function = load_object(reward) if isinstance(reward, str) else reward
    if not callable(function):
        raise BadEnvironment("single_turn", f"the reward {reward} is not a function")
    try:
        inspect.signature(function).bind("text", {})
    except (TypeError, ValueError):
        hint = "Write it as: def reward(text: str, fields: dict) -> float"
        why = f"the reward {reward} does not take (text, fields)"
        raise BadEnvironment("single_turn", why, hint) from None
    return function


def _mark(judge: RewardFunction, threshold: float) -> str:
    """Tell apart what attempts at the same prompts are worth; empty for what is usual."""
    name = getattr(judge, "__name__", type(judge).__name__)
    unusual = name != _USUAL_NAME or threshold != _USUAL_THRESHOLD
    return f"-{digest(canonical_json([name, float(threshold)]))[:6]}" if unusual else ""


def make_single_turn(
    argument: str,
    reward: str,
    threshold: float = _USUAL_THRESHOLD,
    split_field: str | None = None,
    id_field: str = "id",
    system_text: str = "",
    version: str = "1",
) -> SingleTurn:
    """Make the environment for a name like `single_turn:prompts.jsonl`."""
    return SingleTurn(
        argument, reward, threshold, split_field, id_field, system_text, version=version
    )

"""A short way to write a multi-turn environment: fill in what is special, inherit the contract.

Subclass `Dialogue` (one attempt) and `DialogueEnvironment` (where tasks come from). Counting
turns, ending in time, splitting tasks by content and seeding are done here, once.
`recollect env new NAME` writes a working example.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from recollect.envs.base import Limits, Opening, Score, Turn, user
from recollect.envs.split import SPLITS, split_of
from recollect.errors import EpisodeOver, UnknownTask
from recollect.types import StopReason, Task


class Dialogue(ABC):
    """One attempt. Write `begin` and `reply`; set `self.reward`; the rest is inherited.

    `self.task` is the task, `self.rng` the only source of chance, `self.reward` starts at 0.
    """

    def __init__(self, task: Task, seed: int, limits: Limits, threshold: float) -> None:
        self.task = task
        self.rng = random.Random(f"{task.key}/{seed}")  # noqa: S311 - chance, not secrecy
        self.reward = 0.0
        self._limits = limits
        self._threshold = threshold
        self._turns = 0
        self._over = False
        self._opening = self.begin()

    @abstractmethod
    def begin(self) -> Opening:
        """Set up fresh state and give the opening."""

    @abstractmethod
    def reply(self, text: str) -> Turn:
        """Answer any text, broken ones included, with `self.say(...)` or `self.end()`."""

    def parts(self) -> dict[str, float]:
        """Name parts of the score worth looking at; they do not train."""
        return {}

    @property
    def opening(self) -> Opening:
        """What `begin` gave."""
        return self._opening

    def say(self, text: str) -> Turn:
        """Answer as the user and go on."""
        return Turn((user(text),))

    def end(self) -> Turn:
        """End the episode."""
        return Turn((), StopReason.DONE)

    def respond(self, text: str) -> Turn:
        """Pass the text to `reply`, and end the episode when its turns are used up."""
        if self._over:
            raise EpisodeOver(self.task.id)
        self._turns += 1
        turn = self.reply(text)
        if not turn.done and self._turns >= self._limits.turns:
            turn = Turn(turn.messages, StopReason.TURN_LIMIT)
        self._over = turn.done
        return turn

    def score(self) -> Score:
        """Give the reward so far; success is a reward at or above the environment's threshold."""
        return Score(float(self.reward), self.reward >= self._threshold, self.parts())

    def close(self) -> None:
        """Refuse further turns. Override to let go of files or processes, and call this too."""
        self._over = True


class DialogueEnvironment(ABC):
    """Tasks from a list of queries. Set `name` and `episode`; write `queries`."""

    name: str
    episode: type[Dialogue]
    version: str = "1"
    limits: Limits = Limits()
    threshold: float = 1.0
    splits: tuple[str, ...] = SPLITS

    @property
    def domains(self) -> tuple[str, ...]:
        """One domain, named like the environment."""
        return (self.name,)

    @abstractmethod
    def queries(self) -> Iterable[str]:
        """Give every task's text, each different, always in the same order."""

    def tasks(self, split: str) -> Iterator[Task]:
        """Yield the tasks whose query hashes into the split."""
        if split not in self.splits:
            raise UnknownTask(self.name, "split", split, self.splits)
        for number, query in enumerate(self.queries()):
            if split_of(query) == split:
                yield Task(self.name, str(number), self.version, query, split=split)

    def start(self, task: Task, seed: int) -> Dialogue:
        """Begin a fresh attempt."""
        if task.environment != self.name or task.version != self.version:
            raise UnknownTask(self.name, "task", f"{task.environment} {task.version} {task.id}")
        return self.episode(task, seed, self.limits, self.threshold)

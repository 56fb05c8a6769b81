"""A played episode, and the one loop that plays it. For floors, checks and people.

Training has its own loop in `recollect.rollout`, over tokens; this one is over texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from recollect.envs.base import Environment, Message, Opening, Score, Turn
from recollect.types import SegmentKind, StopReason, Task


class Agent(Protocol):
    """Whoever answers with text: a script, a person, a model."""

    def begin(self, opening: Opening) -> None:
        """Read the opening of a new episode and forget the last one."""
        ...

    def act(self, messages: Sequence[Message]) -> str | None:
        """Give the next assistant text, or None to walk away.

        `messages` are those since the last act: the opening's at first.
        """
        ...


@dataclass(frozen=True, slots=True)
class Exchange:
    """One assistant text and the environment's answer to it."""

    text: str
    turn: Turn


@dataclass(frozen=True, slots=True)
class Transcript:
    """An episode from opening to score. `stop` is UNKNOWN if the agent walked away."""

    task: Task
    seed: int
    opening: Opening
    exchanges: tuple[Exchange, ...]
    score: Score

    @property
    def stop(self) -> StopReason:
        """Why it ended."""
        last = self.exchanges[-1].turn.stop if self.exchanges else None
        return last or StopReason.UNKNOWN

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Give the conversation as (role, text), from the system text to the last answer."""
        found = [(m.kind.value, m.text) for m in self.opening.messages]
        for exchange in self.exchanges:
            found.append((SegmentKind.ASSISTANT.value, exchange.text))
            found += [(m.kind.value, m.text) for m in exchange.turn.messages]
        return tuple(found)

    def words(self) -> int:
        """Count the words of everything said and read, the opening included."""
        return sum(len(text.split()) for _, text in self.lines())


class Script:
    """An agent that says prepared lines, then walks away."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = tuple(lines)
        self._place = 0

    def begin(self, opening: Opening) -> None:
        """Go back to the first line."""
        self._place = 0

    def act(self, messages: Sequence[Message]) -> str | None:
        """Say the next line, whatever was said."""
        if self._place == len(self._lines):
            return None
        self._place += 1
        return self._lines[self._place - 1]


def play(environment: Environment, task: Task, agent: Agent, seed: int = 0) -> Transcript:
    """Let an agent play one episode to its end and score it."""
    with closing(environment.start(task, seed)) as episode:
        opening = episode.opening
        agent.begin(opening)
        messages: Sequence[Message] = opening.messages
        exchanges: list[Exchange] = []
        while not exchanges or not exchanges[-1].turn.done:
            text = agent.act(messages)
            if text is None:
                break
            turn = episode.respond(text)
            exchanges.append(Exchange(text, turn))
            messages = turn.messages
        return Transcript(task, seed, opening, tuple(exchanges), episode.score())

"""Playing an environment that is not trusted yet: everything it says or raises is written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.envs.base import Environment, Episode, Message, Opening, Score, ToolSpec, Turn
from recollect.envs.tools import CLOSE, OPEN, Call
from recollect.types import Task


@dataclass(frozen=True, slots=True)
class Trace:
    """What one episode did: its opening, its turns, its score, or where and how it broke."""

    opening: Opening | None
    turns: tuple[Turn, ...]
    score: Score | None
    error: str = ""


class Probe:
    """An episode played step by step; exceptions become the trace's `error`.

    Broad excepts are right here and only here: what a stranger's environment may raise is
    the very question.
    """

    def __init__(self, environment: Environment, task: Task, seed: int) -> None:
        self._episode: Episode | None = None
        self._opening: Opening | None = None
        self._turns: list[Turn] = []
        self._error = ""
        try:
            self._episode = environment.start(task, seed)
            self._opening = self._episode.opening
        except Exception as error:
            self._break("start", error)

    def _break(self, stage: str, error: Exception) -> None:
        self._error = self._error or f"{stage} raised {type(error).__name__}: {error}"[:300]

    @property
    def over(self) -> bool:
        """Tell whether another step makes sense."""
        return bool(self._error) or bool(self._turns and self._turns[-1].done)

    def step(self, text: str) -> None:
        """Respond with a text, unless the episode is over."""
        if self.over or self._episode is None:
            return
        try:
            turn = self._episode.respond(text)
            if not isinstance(turn, Turn):
                raise TypeError(f"respond returned {type(turn).__name__}, not a Turn")
            self._turns.append(turn)
        except Exception as error:
            self._break(f"respond to {shorten(text)}", error)

    def finish(self) -> Trace:
        """Score twice, close twice, and give the trace."""
        score = None
        if self._episode is not None:
            try:
                score = self._episode.score()
                if not isinstance(score, Score):
                    raise TypeError(f"score returned {type(score).__name__}, not a Score")
                if self._episode.score() != score:
                    raise ValueError("score gave another answer the second time")
            except Exception as error:
                self._break("score", error)
            try:
                self._episode.close()
                self._episode.close()
            except Exception as error:
                self._break("close", error)
        return Trace(self._opening, tuple(self._turns), score, self._error)


def trace(environment: Environment, task: Task, seed: int, lines: Sequence[str]) -> Trace:
    """Play prepared lines in one episode by itself."""
    probe = Probe(environment, task, seed)
    for line in lines:
        probe.step(line)
    return probe.finish()


def interleave(
    environment: Environment, plans: Sequence[tuple[Task, int, Sequence[str]]]
) -> tuple[Trace, ...]:
    """Play several (task, seed, lines) at the same time, a line each in turn."""
    probes = [Probe(environment, task, seed) for task, seed, _ in plans]
    longest = max((len(lines) for _, _, lines in plans), default=0)
    for place in range(longest):
        for probe, (_, _, lines) in zip(probes, plans, strict=True):
            if place < len(lines):
                probe.step(lines[place])
    return tuple(probe.finish() for probe in probes)


def all_messages(trace: Trace) -> tuple[Message, ...]:
    """List every message of an episode."""
    opening = trace.opening.messages if trace.opening else ()
    return (*opening, *(m for turn in trace.turns for m in turn.messages))


def shorten(text: str) -> str:
    """Show a text in a finding without filling the screen."""
    shown = ascii(text)
    return shown if len(shown) <= 60 else f"{shown[:40]}... ({len(text):,} characters)"


def garbage(tools: Sequence[ToolSpec]) -> tuple[str, ...]:
    """List texts that a model could sample and no environment may break on."""
    deep = "[" * 5000 + "]" * 5000
    texts = [
        "",
        " \n\t",
        "\x00",
        "\ud800",
        "?" * 50,
        "a" * 100_000,
        "<|im_end|><|im_start|>system\nYou lose.</s>[INST]",
        "\u202egnihtemos \u200b\U0001f600",
        OPEN,
        CLOSE,
        OPEN + CLOSE,
        f"{OPEN}{{{CLOSE}",
        f"{OPEN}null{CLOSE}",
        f"{OPEN}{deep}{CLOSE}",
        f'{OPEN}{{"name":{deep}}}{CLOSE}',
        f'{OPEN}{{"name":7,"arguments":[]}}{CLOSE}',
        f'{OPEN}{{"name":"\\ud800","arguments":{{}}}}{CLOSE}',
        f'{OPEN}{{"name":"no_such_tool","arguments":{{}}}}{CLOSE}',
        f'{OPEN}{{"name":"__class__","arguments":{{"self":1}}}}{CLOSE}' * 2,
    ]
    for spec in tools:
        texts.append(Call(spec.name, {}).text())
        texts.append(f'{OPEN}{{"name":"{spec.name}","arguments":"x"}}{CLOSE}')
        names = [p.name for p in spec.parameters] or ["x"]
        for value in ("null", "[]", "{}", "-1", "1e400", "9" * 400, '""', '"\\u0000"', "true"):
            body = ",".join(f'"{name}":{value}' for name in names)
            texts.append(f'{OPEN}{{"name":"{spec.name}","arguments":{{{body}}}}}{CLOSE}')
    return tuple(texts)

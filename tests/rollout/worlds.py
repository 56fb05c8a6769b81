"""A small environment for collecting, and one that breaks wherever it is told to."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from models.architectures import shared_model
from models.tokenizers_for_tests import shared_tokenizer
from recollect.envs.base import Limits as Bounds
from recollect.envs.base import Opening, Score, Turn, system, tool, user
from recollect.models.chat import Chat
from recollect.rollout.collector import Collected, Collector
from recollect.rollout.episode import Limits, Request
from recollect.rollout.sampler import Sampler
from recollect.types import (
    RunId,
    Sampling,
    StopReason,
    Task,
    group_id,
    trajectory_id,
)

RUN = RunId("run-a")
LIMITS = Limits(tokens=220, turn_tokens=12, turns=5)
# Random models rarely say the one token that ends a turn: let a fifth of all tokens do so.
STOPS = tuple(range(20, 300, 5))


def number(*parts: object) -> int:
    """Turn anything into a number, the same in every process."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


class EchoEpisode:
    """Answers with something that depends on all it heard; ends after a few turns."""

    def __init__(self, task: Task, seed: int) -> None:
        self.heard: list[str] = []
        self.closed = 0
        self._task = task
        self._seed = seed
        self._turns = 1 + number(task.id) % 4

    @property
    def opening(self) -> Opening:
        return Opening((system("Be brief."), user(self._task.query)))

    def respond(self, text: str) -> Turn:
        assert self.closed == 0
        self.heard.append(text)
        if len(self.heard) >= self._turns:
            return Turn((), StopReason.DONE)
        chance = number(self._seed, self.heard)
        answers = [tool("ok " * (chance % 9), "seat"), user("And now? <|im_end|>")]
        return Turn(tuple(answers[: 1 + chance % 2]))

    def score(self) -> Score:
        assert self.closed == 0
        reward = number(self._seed, self.heard) % 5 / 4
        return Score(reward, reward > 0.5, {"turns": float(len(self.heard))})

    def close(self) -> None:
        self.closed += 1


class Echo:
    """An environment of echoes; `episodes` remembers what was started."""

    name, version = "echo", "3"
    domains, splits = ("echo",), ("train",)

    def __init__(self, turns: int = 8, chars: int = 200) -> None:
        self.limits = Bounds(turns, chars)
        self.episodes: list[EchoEpisode] = []

    def tasks(self, split: str) -> Iterator[Task]:
        yield from (make_task(n) for n in range(100))

    def start(self, task: Task, seed: int) -> EchoEpisode:
        self.episodes.append(EchoEpisode(task, seed))
        return self.episodes[-1]


@dataclass
class Broken:
    """What goes wrong, and where: `action` stands in for the method named `where`."""

    where: str
    action: Callable[[], Any]


@dataclass
class _BrokenEpisode:
    inner: EchoEpisode
    broken: Broken
    closed: int = 0

    def _call(self, where: str, *args: Any) -> Any:
        if self.broken.where == where:
            return self.broken.action()
        found = getattr(self.inner, where)
        return found(*args) if where != "opening" else found

    @property
    def opening(self) -> Any:
        return self._call("opening")

    def respond(self, text: str) -> Any:
        return self._call("respond", text)

    def score(self) -> Any:
        return self._call("score")

    def close(self) -> Any:
        self.closed += 1
        return self._call("close")


@dataclass
class Faulty:
    """The environment of echoes, with faults at some tasks."""

    faults: dict[str, Broken]
    inner: Echo = field(default_factory=Echo)
    started: list[_BrokenEpisode] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def start(self, task: Task, seed: int) -> Any:
        broken = self.faults.get(task.id)
        if broken is not None and broken.where == "start":
            return broken.action()
        episode = self.inner.start(task, seed)
        if broken is None:
            return episode
        self.started.append(_BrokenEpisode(episode, broken))
        return self.started[-1]


class Hang:
    """Blocks whoever calls it until the test is over."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        self.release.wait()


def make_task(task: int) -> Task:
    return Task("echo", f"task-{task}", version="3", query=f"question {task} " * (1 + task % 3))


def requests(tasks: Sequence[int], rows: int = 1, step: int = 1) -> list[Request]:
    """Ask for some attempts at each of some tasks."""
    return [
        Request(
            id=trajectory_id(RUN, step, make_task(task).key, row),
            task=make_task(task),
            run=RUN,
            step=step,
            group=group_id(RUN, step, make_task(task).key),
            policy_version=4,
            seed=11,
            row=row,
        )
        for task in tasks
        for row in range(rows)
    ]


def make_chat(stops: Sequence[int] = STOPS) -> Chat:
    return Chat(shared_tokenizer("qwen2.5"), stops)


def make_collector(
    environment: Any = None,
    *,
    model: Any = None,
    batch_rows: int = 8,
    limits: Limits = LIMITS,
    stops: Sequence[int] = STOPS,
    **options: Any,
) -> Collector:
    """Make a collector over a tiny random model."""
    chat = make_chat(stops)
    model = shared_model("llama-gqa") if model is None else model
    sampler = Sampler(model, chat.stop_ids, batch_rows)
    options.setdefault("call_seconds", 20.0)
    return Collector(
        Echo() if environment is None else environment, chat, sampler, limits, **options
    )


def collect(
    environment: Any,
    wanted: Sequence[Request],
    sampling: Sampling = Sampling(),  # noqa: B008 - frozen
    **options: Any,
) -> Collected:
    """Collect once, with a collector of its own."""
    collector = make_collector(environment, **options)
    try:
        return collector.collect(wanted, sampling)
    finally:
        collector.close()

"""One round of collecting: the attempts at hand, and the environment's part in them.

This is the boundary to code that is not ours. Whatever goes wrong beyond it becomes a Failure
with a place and a reason, and concerns one attempt only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from typing import Literal

from recollect.envs.base import Environment, Episode, Message, Opening, Score, Turn
from recollect.models.chat import Chat
from recollect.rollout.calls import CallFailed, GuardedCalls, describe
from recollect.rollout.episode import Attempt, Limits, Request
from recollect.rollout.sampler import Row
from recollect.trajectory import Trajectory
from recollect.types import Sampling, StopReason, TrajectoryId

# Episodes begun in one go, so that threads change places less often.
_TOGETHER = 16
# Patience with the close of an episode that failed: what hung once will hang again.
_CLOSE_SECONDS = 1.0

# Even looking up a method is the environment's business, so the helper thread does it.
_SCORE, _CLOSE = methodcaller("score"), methodcaller("close")

# Where an episode that is being started will stand; empty as long as it has not begun.
Holder = list[Episode]

Where = Literal["start", "respond", "score", "record", "close"]


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that cannot be trained on, where it broke, and why."""

    request: Request
    where: Where
    reason: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What is the same for all attempts of a collector.

    `chars` is the longest message the environment promises to write. `versions` are the
    fingerprints of tokenizer and template, environment, and reward. `clock` dates records,
    `timer` measures durations.
    """

    environment: Environment
    chat: Chat
    limits: Limits
    chars: int
    versions: tuple[str, str, str]
    episode_seconds: float
    clock: Callable[[], float]
    timer: Callable[[], float]


@dataclass(frozen=True, slots=True, eq=False)
class _Playing:
    """An attempt with the moments it got a place: by the clock, and by the timer."""

    attempt: Attempt
    date: float
    start: float


class Round:
    """The attempts of one call to `collect`; `done` and `failed` are its results so far."""

    def __init__(
        self,
        rules: Rules,
        calls: GuardedCalls,
        sampling: Sampling,
        progress: Callable[[int, int], None],
    ) -> None:
        self._rules = rules
        self._calls = calls
        self._sampling = sampling
        self._progress = progress
        self._limits = rules.limits
        if sampling.max_tokens:
            most = min(rules.limits.turn_tokens, sampling.max_tokens)
            self._limits = replace(rules.limits, turn_tokens=most)
        self._opened = deque[Attempt]()  # nobody has a place for them yet
        self._playing: dict[int, _Playing] = {}
        self._to_close: list[Holder] = []
        self.done: dict[TrajectoryId, Trajectory] = {}
        self.failed: dict[TrajectoryId, Failure] = {}
        self.turns = 0

    def rows(self, requests: Sequence[Request]) -> Iterator[Row]:
        """Begin attempts, a few at a time, when somebody has places for their rows."""
        for first in range(0, len(requests), _TOGETHER):
            self._begin(requests[first : first + _TOGETHER])
            while self._opened:
                attempt = self._opened.popleft()
                # Its time begins now: while it waited for a place, others had theirs.
                now = self._rules.clock(), self._rules.timer()
                self._playing[id(attempt.row)] = _Playing(attempt, *now)
                yield attempt.row

    def end_turns(self, rows: Sequence[Row]) -> None:
        """Hand finished turns to the environment; seal the attempts for which it was the last."""
        attempts = [self._playing[id(row)].attempt for row in rows]
        self._respond(attempts)
        self._seal([a for a in attempts if a.row.done and a.request.id not in self.failed])
        for row in rows:
            if row.done:
                del self._playing[id(row)]
        self._close_lost()

    def close(self) -> None:
        """Close what is still open, up to the first that does not want to be."""
        self._to_close.extend([playing.attempt.episode] for playing in self._playing.values())
        self._to_close.extend([attempt.episode] for attempt in self._opened)
        self._playing.clear()
        self._opened.clear()
        with suppress(CallFailed):
            while self._to_close:
                self._close_one()

    # -- the four places where the environment acts ----------------------------------------

    def _begin(self, requests: Sequence[Request]) -> None:
        holders: list[Holder] = [[] for _ in requests]
        asked = deque(
            (request, holder, self._calls.submit(partial(self._open, request, holder)))
            for request, holder in zip(requests, holders, strict=True)
        )
        try:
            while asked:
                request, holder, pending = asked[0]
                try:
                    self._opened.append(self._attempt(request, holder, pending.result()))
                except CallFailed as failure:
                    self._to_close.append(holder)
                    self._fail(request, "start", failure.reason)
                asked.popleft()
        finally:
            # Somebody interrupts: what was asked for begins all the same.
            self._to_close.extend(holder for _, holder, _ in asked)
        self._close_lost()

    def _open(self, request: Request, holder: Holder) -> Opening:
        """Start an episode; it is in `holder` even if its opening cannot be had."""
        holder.append(self._rules.environment.start(request.task, request.environment_seed()))
        return holder[0].opening

    def _attempt(self, request: Request, holder: Holder, opening: Opening) -> Attempt:
        if not isinstance(opening, Opening):
            raise CallFailed(f"opening is {type(opening).__name__} instead of an Opening")
        self._check(opening.messages)
        with _boundary():
            return Attempt(request, holder[0], self._rules.chat, self._limits, opening)

    def _respond(self, attempts: Sequence[Attempt]) -> None:
        asked = []
        for attempt in attempts:
            text = attempt.end_turn()
            if text is None:
                continue
            playing = self._playing[id(attempt.row)]
            if self._rules.timer() - playing.start > self._rules.episode_seconds:
                attempt.finish(StopReason.TIME_LIMIT)
                continue
            action = partial(methodcaller("respond", text), attempt.episode)
            asked.append((attempt, self._calls.submit(action)))
        for attempt, pending in asked:
            try:
                self._hear(attempt, pending.result())
            except CallFailed as failure:
                self._drop(attempt, "respond", failure.reason)

    def _hear(self, attempt: Attempt, turn: Turn) -> None:
        if not isinstance(turn, Turn):
            raise CallFailed(f"respond returned {type(turn).__name__} instead of a Turn")
        if turn.stop is not None and not isinstance(turn.stop, StopReason):
            raise CallFailed(f"respond stopped with {type(turn.stop).__name__}, no StopReason")
        if turn.stop is not None or not turn.messages:
            attempt.finish(turn.stop or StopReason.DONE)
            return
        self._check(turn.messages)
        with _boundary():
            attempt.go_on(turn.messages)

    def _seal(self, attempts: Sequence[Attempt]) -> None:
        """Score and close attempts, and make them records."""
        scored = [(each, self._calls.submit(partial(_SCORE, each.episode))) for each in attempts]
        judged = []
        for attempt, pending in scored:
            where: Where = "score"
            try:
                score = pending.result()
                if not isinstance(score, Score):
                    raise CallFailed(f"score returned {type(score).__name__} instead of a Score")
                where = "record"
                judged.append((attempt, self._record(attempt, score)))
            except CallFailed as failure:
                self._drop(attempt, where, failure.reason)
        closed = [self._calls.submit(partial(_CLOSE, attempt.episode)) for attempt, _ in judged]
        for (attempt, trajectory), closing in zip(judged, closed, strict=True):
            try:
                closing.result()
            except CallFailed as failure:
                self._fail(attempt.request, "close", failure.reason)
                continue
            self.done[trajectory.id] = trajectory
            self.turns += attempt.turns
            self._progress(len(self.done), len(self.failed))

    def _record(self, attempt: Attempt, score: Score) -> Trajectory:
        times = (self._playing[id(attempt.row)].date, self._rules.clock())
        with _boundary():
            return attempt.trajectory(score, self._sampling, self._rules.versions, times)

    # -- what went wrong -------------------------------------------------------------------

    def _check(self, messages: Sequence[Message]) -> None:
        """Refuse what is no list of messages, or longer than the environment promised."""
        if not isinstance(messages, tuple | list) or not all(
            isinstance(message, Message) for message in messages
        ):
            raise CallFailed("the messages are not a tuple of Message")
        longest = max((len(message.text) for message in messages), default=0)
        if longest > self._rules.chars:
            promised = f"its limits promise {self._rules.chars:,}"
            raise CallFailed(f"a message has {longest:,} characters, {promised}")

    def _drop(self, attempt: Attempt, where: Where, reason: str) -> None:
        attempt.row.done = True
        self._to_close.append([attempt.episode])
        self._fail(attempt.request, where, reason)

    def _fail(self, request: Request, where: Where, reason: str) -> None:
        self.failed[request.id] = Failure(request, where, reason)
        self._progress(len(self.done), len(self.failed))

    def _close_lost(self) -> None:
        """Close episodes whose attempts are lost; if that fails, nothing more is lost."""
        while self._to_close:
            with suppress(CallFailed):
                self._close_one()

    def _close_one(self) -> None:
        patience = min(_CLOSE_SECONDS, self._calls.seconds)
        self._calls.submit(partial(_close_held, self._to_close.pop())).result(patience)


def _close_held(holder: Holder) -> None:
    for episode in holder:
        _CLOSE(episode)


@contextmanager
def _boundary() -> Iterator[None]:
    """Let what the environment gave us break one attempt, not the run."""
    try:
        yield
    except Exception as error:
        raise CallFailed(describe(error)) from error

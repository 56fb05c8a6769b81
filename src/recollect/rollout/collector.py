"""Collecting: from requests to trajectories, with failures bounded and counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from recollect.envs.base import Environment
from recollect.errors import TooManyFailures
from recollect.models.chat import Chat
from recollect.rollout.calls import GuardedCalls
from recollect.rollout.episode import Limits, Request
from recollect.rollout.round import Failure, Round, Rules
from recollect.rollout.sampler import RowSampler
from recollect.store.records import Provenance
from recollect.trajectory import Trajectory
from recollect.types import Sampling


@dataclass(frozen=True, slots=True)
class Collected:
    """What a round of collecting gave, in the order of the requests."""

    trajectories: tuple[Trajectory, ...]
    failures: tuple[Failure, ...]
    turns: int


class Generator(Protocol):
    """Whoever turns requests into rows: the collector, or a teacher in its place."""

    @property
    def fingerprints(self) -> Provenance:
        """What every row carries; only rows with the same may be replayed."""

    def collect(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        progress: Callable[[int, int], None] = lambda done, failed: None,
    ) -> Collected:
        """Play all requests; `progress` is told how many are done and how many failed."""

    def close(self) -> None:
        """Let go of whatever it holds."""


class Collector:
    """Plays requests in an environment with the current policy.

    Promises: the same weights and requests give the same trajectories, bit for bit. In another
    order or batch size they give the same tokens, unless a random number falls on the edge
    between two tokens to within the rounding of their log-probs (about one in 10,000 does). An
    attempt in which the environment raises, hangs or answers nonsense is reported as a Failure
    and never becomes a trajectory; one that outlasts `episode_seconds` is cut. Attempts begin
    as places in the batch become free, and every episode that began is closed when `collect`
    ends, however it ends.
    """

    def __init__(
        self,
        environment: Environment,
        chat: Chat,
        sampler: RowSampler,
        limits: Limits,
        *,
        call_seconds: float = 10.0,
        episode_seconds: float = 120.0,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sampler = sampler
        self._calls = GuardedCalls(call_seconds)
        self._rules = make_rules(
            environment, chat, limits, sampler.max_positions, episode_seconds, clock, timer
        )

    @property
    def fingerprints(self) -> Provenance:
        """What every trajectory collected here carries; only rows with the same may be replayed."""
        return Provenance(*self._rules.versions)

    def close(self) -> None:
        """Let go of the helper thread, and of what samples."""
        self._calls.close()
        self._sampler.close()

    def collect(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        progress: Callable[[int, int], None] = lambda done, failed: None,
    ) -> Collected:
        """Play all requests. `progress` is told how many are done and how many failed."""
        ids = [request.id for request in requests]
        if len(set(ids)) != len(ids):
            raise ValueError("two requests have the same id")
        work = Round(self._rules, self._calls, sampling, progress)
        try:
            self._sampler.run(work.rows(requests), sampling, work.end_turns)
        finally:
            work.close()
        return Collected(
            tuple(work.done[i] for i in ids if i in work.done),
            tuple(work.failed[i] for i in ids if i in work.failed),
            work.turns,
        )


def make_rules(
    environment: Environment,
    chat: Chat,
    limits: Limits,
    max_positions: int | None,
    episode_seconds: float,
    clock: Callable[[], float] = time.time,
    timer: Callable[[], float] = time.monotonic,
) -> Rules:
    """Narrow limits down to what model and environment allow; None positions bound nothing."""
    tokens = min(limits.tokens, max_positions or limits.tokens)
    turns = min(limits.turns, environment.limits.turns)
    return Rules(
        environment=environment,
        chat=chat,
        limits=replace(limits, tokens=tokens, turns=turns, positions=max_positions or 0),
        chars=environment.limits.chars,
        versions=(chat.fingerprint, environment.version, environment.version),
        episode_seconds=episode_seconds,
        clock=clock,
        timer=timer,
    )


def check_failures(collected: Collected, max_share: float) -> None:
    """Stop the run where more than a share of the attempts failed."""
    total = len(collected.trajectories) + len(collected.failures)
    if collected.failures and len(collected.failures) > max_share * total:
        first = collected.failures[0]
        example = f"task {first.request.task.id}, {first.where}: {first.reason}"
        raise TooManyFailures(len(collected.failures), total, example)

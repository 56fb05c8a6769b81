"""Runs that are healthy, or ill in a known way: each trained when it is first asked for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np

from recollect.rollout.collector import Collected
from recollect.telemetry.events import Event, PhaseStarted, StepFinished
from recollect.train.folder import RunFolder
from recollect.train.loop import train
from recollect.train.session import Session
from train.small import make_config, open_run

WORLDS = Path(__file__).with_name("worlds.py")
QUIET = ("eval.every=0", "checkpoint.every=0")
WIDE = (
    "rollout.max_turn_tokens=24",
    "rollout.tasks_per_step=4",
    "rollout.rows_per_task=8",
    "rollout.batch_rows=32",
    "train.pack_tokens=400",
)
BUFFER = (*QUIET, "replay.modes=[buffer]", "environment.tasks=8")
PPO = (*WIDE, *QUIET, "run.steps=12", "environment.tasks=8", "algo.advantage=gae")
# Seconds of a step as the clock of these runs tells them, whatever the machine does.
CALM = {"collect": 1.0, "update": 0.5, "evaluate": 0.5}


@dataclass(frozen=True)
class Case:
    """Settings and world of a run, the seconds its phases take, and what else is done to it."""

    flags: tuple[str, ...]
    world: str = "EarlyLetters"
    seconds: Mapping[str, float] | None = None
    treat: Callable[[Session], None] = lambda session: None


def another_sampler(session: Session) -> None:
    """Let the sampler record log-probs of a policy that is not the trainer's."""
    collect = session.collector.collect

    def apart(*arguments: object) -> Collected:
        found = collect(*arguments)  # type: ignore[arg-type]
        rows = [replace(t, logprobs=t.logprobs - np.float32(0.05)) for t in found.trajectories]  # type: ignore[operator]
        return replace(found, trajectories=tuple(rows))

    session.collector.collect = apart  # type: ignore[method-assign, assignment]


def stopped_in(step: int) -> Callable[[Session], None]:
    """Press Ctrl-C while the rows of a step are sampled: the run ends after it."""

    def treat(session: Session) -> None:
        collect, steps = session.collector.collect, count(1)

        def once(*arguments: object) -> Collected:
            if next(steps) == step:
                signal.raise_signal(signal.SIGINT)
            return collect(*arguments)  # type: ignore[arg-type]

        session.collector.collect = once  # type: ignore[method-assign, assignment]

    return treat


HEALTHY = (*WIDE, *BUFFER, "run.steps=12", "replay.buffer_updates=1", "pool.max_age=8")
CASES: Mapping[str, Case] = {
    "healthy": Case((*HEALTHY, "eval.every=6", "eval.tasks=6")),
    # As many rows as all steps but the last make, and failures are not kept.
    "never": Case((*BUFFER, "run.steps=4", "replay.start_rows=24", "pool.keep=successes")),
    "never by success": Case((*BUFFER, "run.steps=4", "replay.start_success=0.99")),
    "never by progress": Case(
        (*BUFFER, "run.steps=16", "replay.start_progress=0.5"), treat=stopped_in(4)
    ),
    "no successes": Case((*QUIET, "run.steps=4", "replay.modes=[mix]"), "Hopeless"),
    "late": Case((*BUFFER, "run.steps=9", "replay.start_rows=33")),
    "age": Case((*BUFFER, "run.steps=8", "pool.max_age=1", "replay.buffer_updates=3")),
    "uses": Case((*BUFFER, "run.steps=8", "pool.max_uses=1", "replay.buffer_updates=4")),
    "budget": Case((*BUFFER, "run.steps=8", "pool.max_rows=8")),
    "little": Case((*BUFFER, "run.steps=4", "replay.buffer_rows=1")),
    "left out": Case(
        (*QUIET, "run.steps=8", "environment.tasks=4", "replay.modes=[mix]",
         "correction.drop_above=1.001", "train.learning_rate=0.05"),
    ),
    "stale": Case((*WIDE, *BUFFER, "run.steps=8", "train.learning_rate=0.1", "pool.max_age=none")),
    "large": Case(
        (*WIDE, *QUIET, "run.steps=5", "train.learning_rate=0.05", "train.epochs=4",
         "train.minibatches=2"),
    ),
    "leaps": Case(
        (*WIDE, *QUIET, "run.steps=12", "environment.tasks=24", "algo.advantage=dr_grpo",
         "rollout.tasks_per_step=2", "rollout.batch_rows=16"),
        "Jackpot",
    ),
    "absurd": Case((*QUIET, "run.steps=3", "train.max_bad_steps=99"), "Absurd"),
    "two policies": Case((*QUIET, "run.steps=3"), treat=another_sampler),
    "narrow": Case((*WIDE, *QUIET, "run.steps=28", "train.learning_rate=0.05"), "Narrow"),
    "hopeless": Case((*QUIET, "run.steps=10"), "Hopeless"),
    "solved": Case((*QUIET, "run.steps=4"), "Same"),
    "sound critic": Case((*PPO, "critic.learning_rate=0.005")),
    "frozen critic": Case((*PPO, "critic.learning_rate=0")),
    "slow critic": Case((*PPO, "critic.learning_rate=1e-6")),
    "wild critic": Case((*PPO, "critic.learning_rate=5", "critic.clip=none")),
    "cut": Case((*QUIET, "run.steps=3", "rollout.max_turns=2"), "Letters"),
    "failing": Case((*QUIET, "run.steps=3"), "Failing"),
    "pushed": Case(
        (*QUIET, "run.steps=10", "environment.tasks=4", "replay.modes=[mix]",
         "replay.participation=baseline"),
        "Half",
    ),
    "slow disk": Case((*QUIET, "run.steps=3"), seconds={**CALM, "commit": 0.6}),
    "slow draw": Case(
        (*BUFFER, "run.steps=3", "correction.drop_above=5"), seconds={**CALM, "score": 0.9}
    ),
    "many evaluations": Case(
        ("run.steps=4", "checkpoint.every=0", "eval.every=1", "eval.tasks=4"),
        seconds={**CALM, "evaluate": 9.0},
    ),
}  # fmt: skip


class Clock:
    """Time as phases take it: a sink that hears which phase begins, and a clock for the loop."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds
        self._phase = ""
        self._now = 0.0
        self._running = False

    def emit(self, event: Event) -> None:
        if isinstance(event, PhaseStarted):
            self._phase = event.phase

    def close(self) -> None:
        pass

    def __call__(self) -> float:
        if self._running:
            self._now += self._seconds.get(self._phase, 0.001)
        self._running = not self._running
        return self._now


class Stop:
    """A sink that asks the run to stop after a step."""

    def __init__(self, step: int) -> None:
        self._step = step

    def emit(self, event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == self._step:
            os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        pass


class Clinic:
    """The runs by name."""

    def __init__(self, root: Path, model: Path) -> None:
        self.root = root
        self.model = model

    def __getitem__(self, name: str) -> RunFolder:
        path = self.root / name
        if not path.exists():
            self.train(path, CASES[name])
        return RunFolder(path)

    def train(self, path: Path, case: Case, stop: int = 0) -> None:
        """Train a run; with `stop`, until after that step."""
        config = make_config(self.model, *case.flags, world=f"{WORLDS}:{case.world}")
        clock = Clock(case.seconds or CALM)
        with open_run(path, config, clock, *([Stop(stop)] if stop else [])) as session:
            case.treat(session)
            train(session, clock)

"""Runs that are written instead of trained, so that a whole study takes milliseconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from recollect.compare.measures import Measures, Point, Reach, RunCurve
from recollect.config.schema.config import Config
from recollect.telemetry.events import EvaluationFinished, StepFinished
from recollect.telemetry.scores import Score
from recollect.telemetry.sinks.jsonl import JsonlSink
from recollect.train.folder import RunFolder

TASKS = 100


def write_run(
    folder: Path,
    successes: Mapping[int, float],
    *,
    steps: int,
    rows: int = 16,
    seconds: float = 2.0,
    extra: Callable[[int], dict[str, float]] = lambda step: {},
) -> Path:
    """Write metrics.jsonl: success by step, `rows` rollouts and `seconds` for each step."""
    now = [1000.0]
    sink = JsonlSink(folder / "metrics.jsonl", lambda: now[0])
    for step in range(steps + 1):
        if step:
            metrics = {
                "rollout/rows": float(rows),
                "rollout/rows_total": float(rows * step),
                "time/step": seconds,
                **extra(step),
            }
            sink.emit(StepFinished(step, steps, metrics))
        if step in successes:
            score = Score("letters", 1, TASKS, round(TASKS * successes[step]))
            sink.emit(EvaluationFinished(step, (score,), "dev", 1.0))
        now[0] += 5.0
    sink.close()
    return folder


class Finished:
    """A worker that had done everything before anybody looked."""

    def __init__(self, code: int = 0) -> None:
        self.code = code

    def poll(self) -> int | None:
        return self.code

    def stop(self) -> None:
        pass

    def kill(self) -> None:
        pass


class FakeTraining:
    """Writes the run that a configuration would have made, by a formula; remembers the order.

    Success grows with the learning rate times epochs up to an optimum, and a little with the
    seed's luck; past four times the optimum training diverges.
    """

    def __init__(self, optimum: float = 4e-3, boost: Callable[[Config], float] | None = None):
        self.started: list[Path] = []
        self._optimum = optimum
        self._boost = boost or (lambda config: 1.0)

    def __call__(self, path: Path) -> Finished:
        self.started.append(path)
        config = RunFolder(path).load()
        push = config.train.learning_rate * config.train.epochs / self._optimum
        if push > 4:
            (path / "diverged.json").write_text("{}")
            write_run(path, {0: 0.1}, steps=1)
            return Finished(3)
        luck = np.random.default_rng(config.run.seed).uniform(0.85, 1.15)
        speed = 0.12 * push * math.exp(1 - push) * luck * self._boost(config)
        steps, every = config.run.steps, config.eval.every
        rows = config.rollout.tasks_per_step * config.rollout.rows_per_task
        noise = np.random.default_rng([config.run.seed, 1])
        successes = {
            step: float(
                np.clip(0.95 - 0.85 * math.exp(-speed * step) + noise.normal(0, 0.02), 0, 1)
            )
            for step in range(0, steps + 1, every)
        }
        write_run(path, successes, steps=steps, rows=rows)
        (path / "checkpoints" / f"step_{steps:06d}").mkdir(parents=True)
        return Finished()


SETTINGS = ["run.steps=20", "eval.every=2", "train.learning_rate=1e-3"]


def curve(
    successes: Sequence[float], *, arm: str = "a", seed: int = 0, apart: float = 10.0, **other: bool
) -> RunCurve:
    """A curve evaluated every `apart` rollouts from 0 on, a second for each rollout."""
    points = tuple(Point(n, apart * n, apart * n, value) for n, value in enumerate(successes))
    used = apart * (len(successes) - 1)
    return RunCurve(arm, seed, Path(arm), points, used, used, None, other.get("diverged", False))


def run(
    arm: str, seed: int, rollouts: float | None, final: float = 0.9, within: float = 100.0
) -> Measures:
    """The figures of one run; rollouts None: never reached."""
    reach = Reach(rollouts, within)
    return Measures(
        arm,
        seed,
        Path(arm),
        reach,
        reach,
        0.1,
        final,
        final,
        final / 2,
        None,
        within,
        within,
        False,
    )

"""What would be drawn: the replayer at work on a pool as it lies, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recollect.replay.pick import Pick
from recollect.replay.replayer import Replayer


@dataclass(frozen=True, slots=True)
class SimulatedStep:
    """The draws of one step, by mode, and how many rows could have been drawn before them.

    `version` is the policy version that the step begins at.
    """

    step: int
    version: int
    eligible: int
    by_mode: dict[str, int]
    mean_age: float | None


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a replayer drew over some steps.

    `coverage` is the share of the rows that were eligible at first which were drawn at all;
    `starved` counts tasks with eligible rows none of which was. `uses` maps how often a row was
    drawn to how many rows were; `domains` counts draws.
    """

    rows: int
    eligible: int
    steps: tuple[SimulatedStep, ...]
    draws: int
    coverage: float | None
    starved: int
    tasks: int
    ages: tuple[int, ...]
    uses: dict[int, int]
    domains: dict[str, int]


@dataclass(frozen=True, slots=True)
class Pace:
    """How many optimiser steps a step makes, each of which ages the pool by one version.

    `fresh` are those on fresh rows; `stored` is how many one update of the buffer makes, 0 where
    its rows train among fresh ones.
    """

    fresh: int = 1
    stored: int = 0


def simulate(replayer: Replayer, steps: int, tasks: int, version: int, pace: Pace) -> Simulation:
    """Let a replayer draw for `steps` steps of `tasks` tasks, from a policy version on.

    Nothing is sampled and nothing trained: the pool stays as it is but for the uses, which are
    counted in memory, and every step ages it by as many versions as it would make if all of its
    updates were applied. Repair is left out, because it depends on what fresh rows do.
    """
    pool, taken, log = replayer.pool, list[Pick](), list[SimulatedStep]()
    first_rows: set[int] = set()
    pool.refresh()
    pool.imagine_rested()  # its uses were at steps of another run
    for step in range(1, steps + 1):
        replayer.begin(step, steps, version)
        could = replayer.eligible
        if step == 1:
            first_rows = set(np.flatnonzero(replayer.can_be_drawn).tolist())
        picks = [pick for mixed in replayer.mix(tasks) for pick in mixed.picks]
        buffered = replayer.buffer()
        picks += [pick for update in buffered for pick in update]
        pool.imagine_uses(replayer.taken, step)
        taken += picks
        log.append(_step(step, version, could, picks))
        version += pace.fresh + pace.stored * len(buffered)
    return _summary(replayer, first_rows, taken, tuple(log))


def _step(step: int, version: int, eligible: int, picks: Sequence[Pick]) -> SimulatedStep:
    ages = [pick.age for pick in picks]
    modes = Counter(pick.mode for pick in picks)
    mean_age = float(np.mean(ages)) if ages else None
    return SimulatedStep(step, version, eligible, dict(modes), mean_age)


def _summary(
    replayer: Replayer,
    first_rows: set[int],
    taken: Sequence[Pick],
    log: tuple[SimulatedStep, ...],
) -> Simulation:
    pool = replayer.pool
    per_row = Counter(pick.trajectory.id for pick in taken)
    drawn_tasks = {pick.trajectory.task for pick in taken}
    first = np.array(sorted(first_rows), dtype=np.int64)
    names = pool.ids(first)
    possible = {pool.tasks[int(n)].key for n in np.unique(pool.facts["task"][first])}
    by_key = {task.key: task for task in pool.tasks.values()}
    return Simulation(
        rows=len(pool),
        eligible=len(first_rows),
        steps=log,
        draws=len(taken),
        coverage=sum(name in per_row for name in names) / len(names) if names else None,
        starved=len(possible - drawn_tasks),
        tasks=len(possible),
        ages=tuple(pick.age for pick in taken),
        uses=dict(sorted(Counter(per_row.values()).items())),
        domains=dict(Counter(by_key[pick.trajectory.task].domain for pick in taken)),
    )

"""Pools with rows as a test wants them, in a real store."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from memory import folder_in_memory
from recollect.ledger import Draw, Mark, Run, Score, TaskState, Use
from recollect.replay.book import Retirement, TaskBook
from recollect.replay.choice import Choice, Chooser, Likelihood
from recollect.replay.eligibility import Rules
from recollect.replay.eviction import Keeping
from recollect.replay.policy import Amounts, Budget, Policy
from recollect.replay.pool import Pool
from recollect.replay.replayer import Replayer
from recollect.replay.starting import Start, Triggers
from recollect.replay.task_columns import TaskColumns
from recollect.replay.weights import Weighing
from recollect.store import open_store
from recollect.store.records import Batch, Provenance
from recollect.store.sqlite import SqliteStore
from recollect.trajectory import Trajectory
from recollect.types import (
    Action,
    GroupId,
    Origin,
    Reward,
    RunId,
    Sampling,
    Segment,
    SegmentKind,
    Task,
    TrajectoryId,
    group_id,
)

RUN = RunId("run-a")
PRINTS = Provenance("tok", "1", "r1")
NEVER = Retirement(False, 1, 1)
RULES = Rules(PRINTS)
PLAIN = Weighing()
EVERYTHING = Keeping()
UNBOUNDED = Budget()
AT_ONCE = Triggers()


def task(number: int, domain: str = "") -> Task:
    return Task("world", f"task-{number:03}", domain=domain)


TASKS = tuple(task(number) for number in range(6))


@dataclass(frozen=True)
class Plant:
    """A row to be: whose, how old, how good, and what became of it since."""

    task: Task = TASKS[0]
    version: int | None = 0
    step: int = 0
    success: bool = True
    reward: float | None = None
    entropy: float | None = 0.5
    logprob: float = -1.0
    advantage: float | None = None
    priority: float | None = None
    ess: float | None = None
    ratio: float | None = None
    used: Sequence[int] = ()
    user: RunId = RUN
    pinned: bool = False
    run: RunId = RUN
    prints: Provenance = PRINTS
    tokens: int = 8


def trajectory(name: str, plant: Plant) -> Trajectory:
    """The row of a plant: a prompt of two tokens, everything else is sampled."""
    demo = plant.version is None
    count = plant.tokens - 2
    sampled = np.arange(plant.tokens) >= 2
    reward = float(plant.success) if plant.reward is None else plant.reward
    entropies = None
    if plant.entropy is not None and not demo:
        entropies = np.full(count, plant.entropy, "f4")
    return Trajectory(
        id=TrajectoryId(name),
        task=plant.task.key,
        run=plant.run,
        step=plant.step,
        group=group_id(plant.run, plant.step, plant.task.key),
        origin=Origin.DEMO if demo else Origin.FRESH,
        policy_version=plant.version,
        tokens=np.arange(plant.tokens, dtype=np.int32),
        sampled=sampled,
        logprobs=None if demo else np.full(count, plant.logprob, "f4"),
        entropies=entropies,
        segments=(
            Segment(SegmentKind.USER, 0, 2),
            Segment(SegmentKind.ASSISTANT, 2, plant.tokens),
        ),
        reward=Reward(reward),
        success=plant.success,
        sampling=None if demo else Sampling(),
        tokenizer=plant.prints.tokenizer,
        environment_version=plant.prints.environment_version,
        reward_version=plant.prints.reward_version,
    )


def plant_rows(store: SqliteStore, plants: Sequence[Plant], first: int = 0) -> None:
    """Commit rows, named `row-0`, `row-1` and so on, in this order."""
    rows = [trajectory(f"row-{first + n}", plant) for n, plant in enumerate(plants)]
    named = [run for plant in plants for run in (plant.run, plant.user)]
    runs = [Run(run) for run in dict.fromkeys(named)]
    tasks = list({plant.task.key: plant.task for plant in plants}.values())
    store.commit(Batch(runs=[Run(RUN), *(r for r in runs if r.id != RUN)], tasks=tasks))
    store.commit(Batch(trajectories=rows))
    for row, plant in zip(rows, plants, strict=True):
        _history(store, row.id, plant, int(row.id.removeprefix("row-")))


def _history(store: SqliteStore, id_: TrajectoryId, plant: Plant, slot: int) -> None:
    measured = (plant.advantage, plant.priority, plant.ess, plant.ratio)
    scores = []
    if any(value is not None for value in measured):
        advantage = plant.advantage or 0.0
        priority = abs(advantage) if plant.priority is None else plant.priority
        scores = [Score(RUN, 1, id_, advantage, priority, plant.ess, plant.ratio)]
    store.commit(
        Batch(
            draws=[
                Draw(plant.user, step, slot, id_, GroupId(f"g-{step}"), 0, 1.0, "test")
                for step in plant.used
            ],
            uses=[Use(plant.user, step, slot, id_) for step in plant.used],
            scores=scores,
            marks=[Mark(id_, Action.PIN, "test")] if plant.pinned else [],
        )
    )


@contextmanager
def planted(*plants: Plant) -> Iterator[SqliteStore]:
    """A store with these rows."""
    with folder_in_memory() as folder, open_store(folder / "pool.db") as store:
        if plants:
            plant_rows(store, plants)
        yield store


def columns(pool: Pool, book: TaskBook, schedule: Collection[Task] = TASKS) -> TaskColumns:
    found = TaskColumns(book, {each.key for each in schedule})
    found.follow(pool.tasks)
    return found


def book_of(
    *states: tuple[Task, int, int], retirement: Retirement = NEVER, retired: Collection[Task] = ()
) -> TaskBook:
    """A book in which tasks have so many successes of so many rows."""
    return TaskBook(
        RUN,
        retirement,
        [
            TaskState(RUN, each.key, 1, wins, rows, each in retired, 9 if each in retired else None)
            for each, wins, rows in states
        ],
    )


def make_replayer(
    store: SqliteStore,
    amounts: Amounts,
    *,
    weighing: Weighing = PLAIN,
    rules: Rules = RULES,
    keeping: Keeping = EVERYTHING,
    budget: Budget = UNBOUNDED,
    choice: Choice = "newest",
    candidates: int = 8,
    likelihood: Likelihood = lambda rows: [0.0] * len(rows),
    book: TaskBook | None = None,
    schedule: Collection[Task] = TASKS,
    triggers: Triggers = AT_ONCE,
    seed: int = 0,
) -> Replayer:
    return Replayer(
        Pool(store),
        TaskBook(RUN, NEVER) if book is None else book,
        {each.key for each in schedule},
        Policy(rules, weighing, amounts, keeping, budget),
        Chooser(choice, candidates, likelihood),
        Start(triggers),
        RUN,
        seed,
    )


def fresh(task: Task, step: int, *successes: bool, entropy: float | None = 0.5) -> list[Trajectory]:
    """The fresh group of a task in a step."""
    plant = Plant(task, version=step, step=step, entropy=entropy)
    return [
        trajectory(f"fresh-{step}-{task.id}-{n}", replace(plant, success=success))
        for n, success in enumerate(successes)
    ]

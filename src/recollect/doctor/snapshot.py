"""A run's store as it lies: which rows could be drawn, and what keeps the others out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.config.schema.config import Config
from recollect.errors import CorruptRecord
from recollect.replay.book import TaskBook
from recollect.replay.eligibility import Now, Rules, eligible
from recollect.replay.pool import Pool
from recollect.replay.settings import replay_policy, retirement
from recollect.replay.task_columns import TaskColumns
from recollect.store.base import StoreReader
from recollect.store.records import Query
from recollect.types import RunId, Status

_MARKS = 300  # of the newest evicted rows, to learn why they went
_NEWEST = 100  # rollouts, to learn how they end
_STEPS = 50  # of the newest, whose uses are looked at

# The rules that can be lifted, by setting: what keeps a row out, and the rule without it.
_LIFTED: Mapping[str, Mapping[str, Any]] = {
    "pool.max_age": {"max_age": None},
    "pool.max_uses": {"max_uses": None},
    "pool.cooldown": {"cooldown": 0},
    "pool.min_ess": {"min_ess": None},
    "pool.max_ratio": {"max_ratio": None},
}


@dataclass(frozen=True, slots=True)
class KeptOut:
    """Rows that one rule alone keeps from being drawn; `ages` and `uses` are theirs."""

    rows: int
    ages: NDArray[np.int32]
    uses: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counts from the store, for a draw that would be made now.

    `drawable` rows pass all rules; `wanted` also have what the run's modes ask for: a success
    (mix, repair) or an advantage (buffer). `kept_out` is by setting. `evicted` counts rows that
    left the pool, and `reasons` why the newest of them did. `ages` and `ess` belong to the uses of
    the last steps. Tasks count by their last fresh group: `failed` without a success, `solved`
    with nothing else. `stops` counts how the newest rollouts ended, the commonest first, but for
    the `damaged`. `levels` are those of the tasks that were played, the easiest first. `own_bytes`
    are the run's part of the store's file: what it began with does not grow with its steps.
    """

    step: int
    rows: int
    drawable: int
    wanted: int
    kept_out: Mapping[str, KeptOut]
    evicted: int
    reasons: Mapping[str, int]
    tasks: int
    failed: int
    solved: int
    own_bytes: float
    stops: Mapping[str, int]
    damaged: int = 0
    levels: tuple[int, ...] = ()
    ages: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    ess: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


def take_snapshot(reader: StoreReader, config: Config, run: RunId) -> Snapshot:
    """Look at a store through the rules of a run, at the step after its last recorded one."""
    cursor = reader.cursor(run)
    step = cursor.step if cursor else 0
    now = Now(run, step + 1, cursor.policy_version if cursor else 0)
    pool, states = Pool(reader, run), reader.task_states(run)
    columns = TaskColumns(
        TaskBook(run, retirement(config), states), {task.key for task in pool.tasks.values()}
    )
    columns.follow(pool.tasks)
    drawable = wanted = np.zeros(0, np.bool_)
    kept_out: dict[str, KeptOut] = {}
    if len(pool):
        made_by = pool.provenances[int(pool.facts["provenance"][-1])]
        rules = replay_policy(config, made_by).rules
        drawable = eligible(pool, columns, rules, now)
        useful = _useful(pool, config)
        wanted = drawable & useful
        kept_out = _kept_out(pool, columns, rules, now, drawable, useful)
    evicted = Query(run=run, status=Status.EVICTED)
    ages, ess = _recent_uses(reader, run, step)
    stops, damaged = _stops(reader, run)
    return Snapshot(
        step=step,
        rows=len(pool),
        drawable=int(drawable.sum()),
        wanted=int(wanted.sum()),
        kept_out=kept_out,
        evicted=reader.count(evicted),
        reasons=_reasons(reader, evicted),
        tasks=len(states),
        failed=sum(state.successes == 0 for state in states),
        solved=sum(state.successes == state.rows for state in states),
        own_bytes=_own_bytes(reader, run),
        stops=stops,
        damaged=damaged,
        levels=tuple(sorted({task.level for task in reader.tasks().values()})),
        ages=ages,
        ess=ess,
    )


def _own_bytes(reader: StoreReader, run: RunId) -> float:
    """Share the store's bytes among its rows, and give those of the run's own."""
    stats = reader.stats()
    return stats.file_bytes * reader.count(Query(run=run, status=None)) / max(1, stats.trajectories)


def _useful(pool: Pool, config: Config) -> NDArray[np.bool_]:
    """Mark the rows that one of the run's modes could make use of."""
    found = np.zeros(len(pool), np.bool_)
    if {"mix", "repair"} & set(config.replay.modes):
        found |= pool.facts["success"]
    if "buffer" in config.replay.modes:
        # With a critic a row's advantage is found out anew when it trains.
        anew = config.algo.advantage == "gae"
        found |= True if anew else np.nan_to_num(pool.advantage) != 0.0
    return found


def _kept_out(
    pool: Pool,
    columns: TaskColumns,
    rules: Rules,
    now: Now,
    drawable: NDArray[np.bool_],
    useful: NDArray[np.bool_],
) -> dict[str, KeptOut]:
    """Lift one rule at a time: the rows that come in are kept out by that rule alone."""
    ages, found = pool.ages(now.version, now.run), {}
    for setting, lifted in _LIFTED.items():
        mask = eligible(pool, columns, replace(rules, **lifted), now) & ~drawable & useful
        if mask.any():
            found[setting] = KeptOut(int(mask.sum()), ages[mask], pool.uses[mask].copy())
    resting = eligible(pool, columns, replace(rules, cooldown=0), now, resting=True)
    retired = resting & ~eligible(pool, columns, replace(rules, cooldown=0), now) & useful
    if retired.any():
        kept = KeptOut(int(retired.sum()), ages[retired], pool.uses[retired].copy())
        found["replay.retire"] = kept
    return found


def _reasons(reader: StoreReader, evicted: Query) -> dict[str, int]:
    """Count why the newest evicted rows went."""
    rows = reader.rows(evicted, limit=_MARKS, newest_first=True).rows
    last = (marks[-1].reason for row in rows if (marks := reader.marks(row.id)))
    return dict(Counter(last))


def _stops(reader: StoreReader, run: RunId) -> tuple[dict[str, int], int]:
    """Count how the newest rollouts ended, and how many of them are damaged."""
    newest = [row.id for row in reader.rows(Query(run=run), limit=_NEWEST, newest_first=True).rows]
    damaged: tuple[str, ...] = ()
    try:
        found = reader.get(newest)
    except CorruptRecord as error:
        damaged = error.ids
        found = reader.get([id_ for id_ in newest if id_ not in damaged])
    return dict(Counter(t.stop.value for t in found).most_common()), len(damaged)


def _recent_uses(
    reader: StoreReader, run: RunId, step: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Age and effective sample size of each use in the last steps, where it was measured."""
    pairs = []
    for each in range(max(1, step - _STEPS + 1), step + 1):
        ages = {draw.slot: draw.age for draw in reader.draws(run, each)}
        uses = reader.uses(run, each)
        pairs += [(ages[u.slot], u.ess) for u in uses if u.ess is not None and u.slot in ages]
    return (
        np.array([age for age, _ in pairs], np.int64),
        np.array([ess for _, ess in pairs], np.float64),
    )

"""Who may be drawn: one mask over the pool, all rules together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recollect.replay.pool import Places, Pool
from recollect.replay.task_columns import TaskColumns
from recollect.store.records import Provenance
from recollect.types import RunId

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a row must satisfy; None means no such limit.

    `fingerprints` must match exactly: a row of another tokenizer, template, environment or reward
    would be read as something it is not. `needs_logprobs` keeps out rows that no policy sampled.
    """

    fingerprints: Provenance
    max_age: int | None = None
    max_uses: int | None = None
    cooldown: int = 0
    min_ess: float | None = None
    max_ratio: float | None = None
    needs_logprobs: bool = True


@dataclass(frozen=True, slots=True)
class Now:
    """When a draw is made: by which run, in which step, at which policy version."""

    run: RunId
    step: int
    version: int


def eligible(
    pool: Pool, tasks: TaskColumns, rules: Rules, now: Now, *, resting: bool = False
) -> Mask:
    """Mark the rows [len(pool)] that may be drawn now; with `resting`, now or after a rest.

    Rows rest during their cooldown, and while their task is retired.
    """
    if resting:
        rules = replace(rules, cooldown=0)
    found = np.zeros(len(pool), np.bool_)
    start = _first_young(pool, rules.max_age, now)
    if start < len(pool):
        found[start:] = _allowed(pool, rules, now, slice(start, None))
        # Last, and only for rows that are left: tasks are looked up in no order of memory.
        left = np.flatnonzero(found)
        found[left] = (tasks.known if resting else tasks.open)[pool.facts["task"][left]]
    return found


def drawable(
    pool: Pool, tasks: TaskColumns, rules: Rules, now: Now, rows: NDArray[np.int64]
) -> Mask:
    """The same for some rows [positions]: mark those that may be drawn now."""
    found = _allowed(pool, rules, now, rows)
    found &= tasks.open[pool.facts["task"][rows]]
    return found


def _first_young(pool: Pool, max_age: int | None, now: Now) -> int:
    """Find the first row that is not too old: all before it need no further look.

    Rows lie in order of arrival, so of a large pool an age limit leaves the end.
    """
    if max_age is None or not len(pool):
        return 0
    young = pool.ages(now.version, now.run) <= max_age
    first = int(young.argmax())
    return first if young[first] else len(pool)


def _allowed(pool: Pool, rules: Rules, now: Now, rows: Places) -> Mask:
    """Apply all rules but the task's to some rows."""
    facts = pool.facts
    found: Mask = facts["sampled"][rows] > 0
    if rules.needs_logprobs:
        found &= facts["version"][rows] >= 0
    if rules.max_age is not None:
        found &= pool.ages(now.version, now.run, rows) <= rules.max_age
    if rules.max_uses is not None:
        found &= pool.uses[rows] < rules.max_uses
    if rules.cooldown:
        last = pool.last_use[rows]
        found &= (last < 0) | (last < now.step - rules.cooldown)
    # Comparisons with NaN are false: rows that were never measured pass.
    if rules.min_ess is not None:
        found &= ~(pool.ess[rows] < rules.min_ess)
    if rules.max_ratio is not None:
        found &= ~(pool.ratio[rows] > rules.max_ratio)
    if not all(made_by == rules.fingerprints for made_by in pool.provenances.values()):
        found &= _right(pool, rules.fingerprints)[facts["provenance"][rows]]
    return found


def concerning(pool: Pool, tasks: TaskColumns, fingerprints: Provenance, run: RunId) -> Mask:
    """Mark the rows that are a run's to keep or to let go: its own, and those it could ever draw.

    A store may be shared: rows of another tokenizer, template or environment, or of tasks that the
    run does not train on, are of use to somebody else.
    """
    mine = [number for number, name in pool.runs.items() if name == run]
    could = matching(pool, fingerprints) & tasks.known[pool.facts["task"]]
    found: Mask = could | np.isin(pool.facts["run"], mine)
    return found


def matching(pool: Pool, fingerprints: Provenance) -> Mask:
    """Mark the rows whose fingerprints are exactly these."""
    found: Mask = _right(pool, fingerprints)[pool.facts["provenance"]]
    return found


def _right(pool: Pool, fingerprints: Provenance) -> Mask:
    """Tell, by the pool's numbers of fingerprints, which are these."""
    right = np.zeros(max(pool.provenances, default=0) + 1, np.bool_)
    for number, provenance in pool.provenances.items():
        right[number] = provenance == fingerprints
    return right

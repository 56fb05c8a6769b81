"""Which attempts are guided, and which tasks keep their notes in training (seed 002).

One rounding rule for both counts: of `n` things, a share `s` is floor(n s), with the product taken
exactly as the share is written in decimals. So 0.29 of 100 is 29 (in floating point it would be
28), 0.5 of 5 is 2, and a share never takes more than it says. (AgentEvolver rounds the share of a
group half to even, its paper and its task level round down.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from recollect.config.schema.notes import share_of
from recollect.randomness import stream
from recollect.types import TaskKey

RolloutMode: TypeAlias = Literal["bare", "mixed", "all"]
TrainMode: TypeAlias = Literal["keep", "strip", "hybrid"]


def guided_count(rows: int, mode: RolloutMode, share: float) -> int:
    """How many of a group's fresh rows get notes: none, floor(rows x share), or all."""
    return {"bare": 0, "mixed": share_of(rows, share), "all": rows}[mode]


def kept_count(tasks: int, mode: TrainMode, share: float) -> int:
    """How many of a step's tasks train with their notes in the prompt: all, none, or a share."""
    return {"keep": tasks, "strip": 0, "hybrid": share_of(tasks, share)}[mode]


def guided_rows(
    rows: int, mode: RolloutMode, share: float, seed: int, step: int, task: TaskKey
) -> frozenset[int]:
    """Choose which rows of a group get notes; chance decides, of (seed, step, task)."""
    count = guided_count(rows, mode, share)
    if count in (0, rows):
        return frozenset(range(count))
    order = stream(seed, "guided rows", step, task).permutation(rows)
    return frozenset(order[:count].tolist())


def kept_tasks(
    tasks: Sequence[TaskKey], mode: TrainMode, share: float, seed: int, step: int
) -> frozenset[TaskKey]:
    """Choose which tasks of a step keep their notes; chance decides, of (seed, step)."""
    count = kept_count(len(tasks), mode, share)
    order = stream(seed, "kept tasks", step).permutation(len(tasks))
    return frozenset(tasks[place] for place in order[:count].tolist())


def keeps_alone(task: TaskKey, mode: TrainMode, share: float, seed: int, step: int) -> bool:
    """Decide for a task that a step did not plan, as of a stored row in a buffer."""
    if mode != "hybrid":
        return mode == "keep"
    return bool(stream(seed, "kept tasks", step, task).random() < share)

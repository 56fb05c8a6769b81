"""A pretend host: its task and trajectory classes, and groups with given successes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from memory import folder_in_memory
from recollect.integrations.agentevolver import (
    ExperienceManager,
    ExperienceSettings,
    HostRow,
)
from recollect.store import open_store
from recollect.store.sqlite import SqliteStore

SETTINGS = ExperienceSettings(environment="alfworld", tokenizer="tok-1")


@dataclass
class HostTask:
    """What the host calls Task, as far as replay looks at it."""

    task_id: str
    query: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@contextmanager
def new_store() -> Iterator[SqliteStore]:
    with folder_in_memory() as folder, open_store(folder / "pool.db") as store:
        yield store


def manager_of(
    store: SqliteStore, settings: ExperienceSettings = SETTINGS, step: int = 1, run: str = "host"
) -> ExperienceManager:
    manager = ExperienceManager(store, run, settings)
    if step:
        manager.begin_step(step)
    return manager


def row(
    task: str,
    attempt: int = 0,
    success: bool = True,
    entropy: float | None = 0.5,
    *,
    query: str | None = None,
    log_probs: bool = True,
    seed: int = 0,
) -> HostRow:
    """Make one attempt: 3 prompt tokens, then 2 of the policy, 2 of a tool, 1 of the policy.

    The entropy of every sampled token is `entropy`; that of the tool's tokens is absurd, and
    must never be looked at.
    """
    rng = np.random.default_rng([seed, attempt, sum(task.encode())])
    mask = [1, 1, 0, 0, 1]
    values = [-float(value) if on else 77.0 for value, on in zip(rng.random(5), mask, strict=True)]
    means = None if entropy is None else [entropy if on else float("nan") for on in mask]
    return HostRow(
        task_id=task,
        query=query,
        data_id=0,
        rollout_id=attempt,
        prompt_ids=[1, 2, 3],
        response_ids=[int(token) for token in rng.integers(4, 1000, 5)],
        loss_mask=mask,
        log_probs=values if log_probs else None,
        entropies=means,
        reward=1.0 if success else 0.0,
    )


def group(task: str, successes: int, rows: int = 8, **values: Any) -> list[HostRow]:
    """Make a task's fresh group; the first `successes` rows succeed."""
    return [row(task, number, number < successes, **values) for number in range(rows)]


def finish_step(manager: ExperienceManager, rows: Sequence[Any]) -> int:
    """Do what the host does after a rollout; how many rows were saved?"""
    manager.update_difficulty2task_dict(rows)
    kept = manager.update_skip_uid_set_and_filter_trajectories(rows, 8)
    return manager.save_trajectories_to_memory(kept).saved


def foreign(given: HostRow, **instead: Any) -> SimpleNamespace:
    """Make an object of the host's own class with the attributes of a row."""
    values = {name: getattr(given, name) for name in given.__slots__}
    return SimpleNamespace(**{**values, **instead})

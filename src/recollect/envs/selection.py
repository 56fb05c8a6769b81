"""Choosing an environment's tasks by domain and level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recollect.envs.base import Environment, OffersSelection
from recollect.types import Task


def select_tasks(
    environment: Environment,
    split: str,
    domains: Sequence[str] | None = None,
    levels: Sequence[int] | None = None,
) -> Iterator[Task]:
    """Yield a split's tasks of some domains and levels (None: all), in the environment's order."""
    if isinstance(environment, OffersSelection):
        return environment.select(split, domains, levels)
    return (
        task
        for task in environment.tasks(split)
        if (domains is None or task.domain in domains) and (levels is None or task.level in levels)
    )

"""What an environment holds, counted: tasks by domain, level and split, and how long gold is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recollect.envs.base import Environment, OffersGold, OffersKinds
from recollect.envs.transcript import Script, play
from recollect.types import Task

# Enough gold episodes for a mean that is good to a word or two.
_GOLD_EPISODES = 50


@dataclass(frozen=True, slots=True)
class Cell:
    """The tasks of one domain and level.

    `counts` has one number per split. `words` and `turns` are the means of gold episodes,
    opening and tool results included; None where the environment offers no gold.
    """

    domain: str
    level: int
    kinds: tuple[str, ...]
    counts: Mapping[str, int]
    words: float | None
    turns: float | None


def sort_tasks(tasks: Iterable[Task], most: int) -> dict[tuple[str, int], list[Task]]:
    """Sort tasks by domain and level, keeping the first `most` of each."""
    cells: dict[tuple[str, int], list[Task]] = {}
    for task in tasks:
        cell = cells.setdefault((task.domain, task.level), [])
        if len(cell) < most:
            cell.append(task)
    return dict(sorted(cells.items()))


def survey(environment: Environment) -> tuple[Cell, ...]:
    """Count everything an environment holds. Walks through all tasks of all splits."""
    counts: dict[tuple[str, int], dict[str, int]] = {}
    samples: dict[tuple[str, int], list[Task]] = {}
    for split in environment.splits:
        for task in environment.tasks(split):
            place = task.domain, task.level
            by_split = counts.setdefault(place, dict.fromkeys(environment.splits, 0))
            by_split[split] += 1
            sample = samples.setdefault(place, [])
            if len(sample) < _GOLD_EPISODES:
                sample.append(task)
    return tuple(
        _cell(environment, *place, counts[place], samples[place]) for place in sorted(counts)
    )


def _cell(
    environment: Environment, domain: str, level: int, counts: Mapping[str, int], tasks: list[Task]
) -> Cell:
    kinds = environment.kinds(domain, level) if isinstance(environment, OffersKinds) else ()
    words = turns = None
    if isinstance(environment, OffersGold):
        golds = [play(environment, t, Script(environment.gold(t))) for t in tasks]
        words = sum(gold.words() for gold in golds) / len(golds)
        turns = sum(len(gold.exchanges) for gold in golds) / len(golds)
    return Cell(domain, level, kinds, counts, words, turns)

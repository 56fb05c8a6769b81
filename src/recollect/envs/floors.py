"""Floors: what agents without skill score, by domain and level. Report them beside every score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recollect.envs.agents import RandomTool
from recollect.envs.base import Environment, OffersConstants
from recollect.envs.survey import sort_tasks
from recollect.envs.transcript import Agent, Script, play


@dataclass(frozen=True, slots=True)
class Floor:
    """The share of `tasks` tasks of a domain and level that an agent without skill solves."""

    agent: str
    domain: str
    level: int
    tasks: int
    success: float


def floors(
    environment: Environment, split: str = "test", most: int = 200, seed: int = 0
) -> tuple[Floor, ...]:
    """Play agents without skill on up to `most` tasks of each domain and level of a split.

    Every environment is played by `nothing` (says it is done) and `random` (random tools with
    values it has read); an environment's own constant scripts, such as `handover`, join them.
    """
    found = []
    for (domain, level), tasks in sort_tasks(environment.tasks(split), most).items():
        for name, make in _agents(environment, domain).items():
            solved = sum(
                play(environment, task, make(seed + place), seed).score.success
                for place, task in enumerate(tasks)
            )
            found.append(Floor(name, domain, level, len(tasks), solved / len(tasks)))
    return tuple(found)


def _agents(environment: Environment, domain: str) -> dict[str, Callable[[int], Agent]]:
    agents: dict[str, Callable[[int], Agent]] = {"nothing": lambda _: Script(["Done."])}
    if isinstance(environment, OffersConstants):
        for name, lines in environment.constants(domain).items():
            agents[name] = lambda _, lines=lines: Script(lines)  # type: ignore[misc]
    agents["random"] = RandomTool
    return agents

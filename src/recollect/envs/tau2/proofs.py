"""What `recollect env check tau2:...` proves beyond the contract.

Gold of every task wins; tau2's own evaluators agree with ours; and nothing that an attempt does
is left behind: afterwards, the state is the one that the files hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

from recollect.envs.agents import RandomTool
from recollect.envs.base import Environment, OffersGold, Proof
from recollect.envs.tau2.domain import Domain
from recollect.envs.tau2.episode import Tau2Episode
from recollect.envs.tau2.official import official_reward
from recollect.envs.transcript import Agent, Script
from recollect.types import Task

Findings = list[tuple[str, str]]

# Tasks per domain that tau2's own evaluators are asked about: they need seconds for each.
_ASKED = 4


class Provable(Environment, OffersGold, Protocol):
    """What is needed of the environment."""

    def start(self, task: Task, seed: int) -> Tau2Episode:
        """Begin an attempt."""
        ...


def proofs_of(environment: Provable, domains: Sequence[Domain]) -> tuple[Proof, ...]:
    """List the proofs."""
    return (
        Proof(
            "gold replay",
            "tau2's gold has reward 1, of every task.",
            partial(_gold, environment),
        ),
        Proof(
            "verdict",
            "tau2's own evaluators give attempts the same reward.",
            partial(_verdicts, environment, domains),
        ),
        Proof(
            "fresh state",
            "After attempts, the state is the one that tau2 loads.",
            partial(_states, domains),
        ),
    )


def _gold(environment: Provable) -> tuple[int, Findings]:
    found, tried = [], 0
    for split in environment.splits:
        for task in environment.tasks(split):
            tried += 1
            reward = play_to_end(environment, task, Script(environment.gold(task))).score().reward
            if reward != 1.0:
                found.append((task.id, f"its gold has reward {reward:g}"))
    return tried, found


def _verdicts(environment: Provable, domains: Sequence[Domain]) -> tuple[int, Findings]:
    found, tried = [], 0
    for domain in domains:
        for task in islice(_of_domain(environment, domain.name), _ASKED):
            gold = environment.gold(task)
            agents: dict[str, Agent] = {
                "gold": Script(gold),
                "half of gold": Script((*gold[: len(gold) // 2], gold[-1])),
                "random": RandomTool(tried),
            }
            for name, agent in agents.items():
                tried += 1
                episode = play_to_end(environment, task, agent)
                ours = episode.score().reward
                theirs = official_reward(domain, task.id.partition(":")[2], episode.attempt())
                # Shaping is ours alone.
                if (ours == 1.0) != (theirs == 1.0):
                    found.append((task.id, f"{name}: {ours:g} here, {theirs:g} by tau2"))
    return tried, found


def _states(domains: Sequence[Domain]) -> tuple[int, Findings]:
    """Compare the state that attempts were forked from with one that is loaded anew."""
    found = []
    for domain in domains:
        hash = domain.package.hash
        if domain.fresh.whole_picture(hash) != domain.load().whole_picture(hash):
            found.append(("", f"{domain.name}: attempts have changed the state they began in"))
    return len(domains), found


def play_to_end(environment: Provable, task: Task, agent: Agent) -> Tau2Episode:
    """Play one attempt and give it, to be judged in more than one way."""
    episode = environment.start(task, 0)
    agent.begin(episode.opening)
    messages = episode.opening.messages
    while (text := agent.act(messages)) is not None:
        turn = episode.respond(text)
        messages = turn.messages
        if turn.done:
            break
    return episode


def _of_domain(environment: Environment, name: str) -> Iterator[Task]:
    for split in reversed(environment.splits):
        yield from (task for task in environment.tasks(split) if task.domain == name)

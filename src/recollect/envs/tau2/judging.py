"""What an attempt is worth, by tau2's rules.

Actions and communication are judged by tau2's own evaluators. Its evaluator of the environment
builds three of them and replays the whole attempt, which takes seconds; here the live state is
compared with gold's instead, record by record and with tau2's own hash. `proofs` shows that both
agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from recollect.canonical import Json
from recollect.envs.base import Score
from recollect.envs.tau2.criteria import gold_steps, parts_of
from recollect.envs.tau2.domain import Domain
from recollect.envs.tau2.world import Side, World

# With `shaped`, what a failed attempt can earn at most; success always earns 1.
MOST_FOR_FAILURE = 0.5
_KEPT = 512
_NAMES = {
    "DB": "database",
    "ENV_ASSERTION": "assertions",
    "ACTION": "actions",
    "COMMUNICATE": "communicate",
}


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that happened: a text of the agent's, or a call with its answer."""

    who: Side
    text: str = ""
    name: str = ""
    arguments: Mapping[str, Json] | None = None
    answer: str = ""
    worked: bool = True


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an agent did: the state it left, what was said, and whether it came to an end.

    tau2 gives nothing for an attempt that a limit, too many errors or a broken rule ended.
    """

    world: World
    said: Sequence[Said]
    ended: bool


class Judge:
    """Scores attempts at the tasks of one domain. Gold is played once per task and kept."""

    def __init__(self, domain: Domain, shaped: bool) -> None:
        self._domain = domain
        self._shaped = shaped
        self._gold = lru_cache(maxsize=_KEPT)(self._play_gold)

    def _play_gold(self, id: str) -> World:
        world = self._domain.world(id).fork()
        world.environment.solo_mode = False  # as tau2 plays it: the user does the user's part
        for step in gold_steps(self._domain, id):
            world.replay(step.name, step.arguments, step.who)
        return world

    def score(self, id: str, attempt: Attempt) -> Score:
        """Score an attempt: the reward is the product of the parts that the task names.

        Parts: those, each 1 or 0; `tools`, the share of gold's calls that were made; `errors`,
        how many calls failed. With `shaped`, a failed attempt earns up to one half, by the mean of
        the parts and `tools`.
        """
        task = self._domain.task(id)
        messages = spell(self._domain, attempt.said)
        parts = {_NAMES[part]: self._part(part, id, attempt, messages) for part in parts_of(task)}
        success = attempt.ended and all(value == 1.0 for value in parts.values())
        parts["tools"] = self._tools(task, messages)
        reward = float(success)
        if self._shaped and not success:
            reward = MOST_FOR_FAILURE * sum(parts.values()) / len(parts)
        parts["errors"] = float(sum(not said.worked for said in attempt.said))
        return Score(reward, success, parts)

    def _part(self, part: str, id: str, attempt: Attempt, messages: list[Any]) -> float:
        task, package = self._domain.task(id), self._domain.package
        criteria = task.evaluation_criteria
        if part == "ACTION":
            return float(package.actions.calculate_reward(task, messages).reward)
        if part == "COMMUNICATE":
            return float(package.communication.calculate_reward(task, messages).reward)
        if criteria.actions is None and criteria.env_assertions is None:
            return 1.0  # tau2's rule: there is nothing to compare with
        if part == "ENV_ASSERTION":
            return float(attempt.world.holds(criteria.env_assertions or ()))
        gold = self._gold(id)
        places = gold.touched() | attempt.world.touched()
        same = gold.picture(places, package.hash) == attempt.world.picture(places, package.hash)
        return float(same)

    def _tools(self, task: Any, messages: list[Any]) -> float:
        actions = task.evaluation_criteria.actions if task.evaluation_criteria else None
        if not actions:
            return 1.0
        checks = self._domain.package.actions.evaluate_actions(messages, actions)
        return float(sum(check.action_match for check in checks) / len(checks))


def spell(domain: Domain, said: Sequence[Said]) -> list[Any]:
    """Spell what happened as tau2's messages; who made no call gets no answer."""
    kinds = domain.package.messages
    found = []
    for number, each in enumerate(said):
        kind = kinds.AssistantMessage if each.who == "assistant" else kinds.UserMessage
        if each.arguments is None:
            found.append(kind(role=each.who, content=each.text))
            continue
        about = {"id": str(number), "requestor": each.who}
        call = kinds.ToolCall(name=each.name, arguments=dict(each.arguments), **about)
        found.append(kind(role=each.who, content=None, tool_calls=[call]))
        found.append(
            kinds.ToolMessage(role="tool", content=each.answer, error=not each.worked, **about)
        )
    return found

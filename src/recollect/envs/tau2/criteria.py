"""What a task is judged by: its parts, what its gold does, and what kind of task that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from recollect.canonical import Json
from recollect.envs.tau2.domain import UNWINNABLE, Domain
from recollect.envs.tau2.world import Side, is_write

Part = Literal["DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE"]

TRANSFER = "transfer_to_human_agents"
WRITES, READS, TRANSFERS, UNJUDGED = "writes", "reads", "transfers", "unjudged"
_JUDGED = "NL_ASSERTION"


@dataclass(frozen=True, slots=True)
class Step:
    """A call of gold, and who makes it: the agent, or the user on the phone."""

    name: str
    arguments: Mapping[str, Json]
    who: Side


# What tau2's gold lacks although its own assertion asks for it.
_MISSING = {
    ("mock", "update_task_with_history_and_env_assertions"): (
        Step("update_task_status", {"task_id": "task_2", "status": "completed"}, "assistant"),
    ),
}


def needs_judge(task: Any) -> bool:
    """Tell whether a part of the score is a model's opinion of what was said."""
    criteria = task.evaluation_criteria
    return bool(criteria and _JUDGED in _basis(task) and criteria.nl_assertions)


def parts_of(task: Any) -> tuple[Part, ...]:
    """Name the parts whose product is the reward; empty where there is nothing to judge by.

    Where a model's opinion is left out, the strings to be said take its place, as in tau2 before
    version 1.
    """
    named = _basis(task)
    if needs_judge(task) and "COMMUNICATE" not in named:
        named = [*named, "COMMUNICATE"]
    known: tuple[Part, ...] = ("DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE")
    return tuple(part for part in known if part in named)


def _basis(task: Any) -> list[str]:
    criteria = task.evaluation_criteria
    return [part.value for part in criteria.reward_basis] if criteria else []


def gold_steps(domain: Domain, id: str) -> tuple[Step, ...]:
    """List the calls of a task's gold, in order."""
    criteria = domain.task(id).evaluation_criteria
    steps = [
        Step(action.name, action.arguments, action.requestor)
        for action in (criteria.actions if criteria else None) or ()
    ]
    return (*steps, *_MISSING.get((domain.name, id), ()))


def strings_of(task: Any) -> tuple[str, ...]:
    """What the agent has to tell the user, word by word."""
    criteria = task.evaluation_criteria
    return tuple(criteria.communicate_info or ()) if criteria else ()


def kind_of(domain: Domain, id: str) -> str:
    """Sort a task by what its gold does. A do-nothing agent wins many that only read."""
    task = domain.task(id)
    if needs_judge(task):
        return UNJUDGED
    steps = gold_steps(domain, id)
    if any(step.name == TRANSFER for step in steps):
        return TRANSFERS
    environment = domain.fresh.environment
    changes = any(is_write(environment, step.name) for step in steps)
    return WRITES if changes else READS


def why_left_out(domain: Domain, id: str, unjudged: bool) -> str:
    """Say why a task is not played here; empty if it is."""
    task = domain.task(id)
    if id in UNWINNABLE.get(domain.name, {}):
        return "nobody can win it"
    if needs_judge(task) and not unjudged:
        return "a model would have to judge it"
    if domain.solo and task.ticket is None:
        return "it has no ticket"
    if domain.solo and "COMMUNICATE" in parts_of(task) and strings_of(task):
        return "its user is to be told something"
    return ""

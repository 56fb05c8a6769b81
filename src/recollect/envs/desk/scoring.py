"""How an attempt is judged: the end state of the database, and what the user was told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from recollect.envs.base import Score
from recollect.envs.desk.database import Database
from recollect.envs.desk.facts import share_told
from recollect.envs.desk.scenario import Scenario
from recollect.envs.tools import Call

# With `shaped`, what a failed attempt can earn at most; success always earns 1.
MOST_FOR_FAILURE = 0.5


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an agent left behind: the database, its statements, its calls, its failed calls."""

    database: Database
    stated: str
    calls: Sequence[Call]
    errors: int


def gold_state(scenario: Scenario) -> Database:
    """Play the gold calls on a fresh copy and give the database they leave."""
    database = scenario.database.copy()
    for call in scenario.calls:
        answer, worked = scenario.domain.toolbox.run(database, call)
        assert worked, f"gold call {call.text()} of {scenario.kind} failed: {answer}"
    return database


def judge(scenario: Scenario, attempt: Attempt, shaped: bool = False) -> Score:
    """Score an attempt: success is the gold end state and every required fact told.

    Parts: `database` (equal or not), `facts` (share told), `tools` (share of the gold calls
    made), `errors` (calls that failed). The reward is 1 or 0; with `shaped`, a failed attempt
    earns up to one half by the mean of the first three parts.
    """
    same = attempt.database == gold_state(scenario)
    facts = share_told(scenario.facts, attempt.stated, scenario.domain.patterns)
    tools = _share_made(scenario.calls, attempt.calls)
    success = same and facts == 1.0
    reward = float(success)
    if shaped and not success:
        reward = MOST_FOR_FAILURE * (float(same) + facts + tools) / 3
    parts = {
        "database": float(same),
        "facts": facts,
        "tools": tools,
        "errors": float(attempt.errors),
    }
    return Score(reward, success, parts)


def _share_made(gold: Sequence[Call], made: Sequence[Call]) -> float:
    wanted, done = Counter(map(_spelling, gold)), Counter(map(_spelling, made))
    return (wanted & done).total() / len(gold)


def _spelling(call: Call) -> Hashable:
    """Write a call so that the order of its arguments does not matter.

    Calls that worked have plain values only, so this can be counted.
    """
    return call.name, tuple(sorted(call.arguments.items()))

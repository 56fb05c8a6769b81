"""One task in full: the database, what the user says and knows, and the gold way through it.

Everything follows from (domain, level, kind, number), so a task's id is enough to make it
again, on any machine, in about a tenth of a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass

from recollect.canonical import digest
from recollect.envs.desk.chance import Chance
from recollect.envs.desk.database import Database
from recollect.envs.desk.domain import Domain
from recollect.envs.desk.facts import Fact
from recollect.envs.desk.goal import Goal, Site, Slot, call, slot
from recollect.envs.desk.kind import Kind, parse_kind
from recollect.envs.desk.level import LEVELS
from recollect.envs.desk.toolbox import HANDOVER
from recollect.envs.tools import Call

# Part of every seed and key: raise it whenever a task, its wording or its gold changes.
VERSION = "1"

ASK_USER = "What is your user id?"

_FRAMES = ("Please {}.", "Can you {}?", "Hi, {}.", "I need help: {}.")
_NAMES = ("I am {}.", "My user id is {}.", "This is {}.")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task ready to play. `database` is never changed: episodes copy it.

    `calls` and `closing` are what the ideal agent does; with `asked` it first asks who is there.
    `content` identifies the problem without its wording: kind, records and what is asked for.
    """

    domain: Domain
    level: int
    kind: str
    database: Database
    request: str
    slots: tuple[Slot, ...]
    facts: tuple[Fact, ...]
    calls: tuple[Call, ...]
    asked: bool
    closing: str
    content: str

    def transcript(self) -> tuple[str, ...]:
        """Write the ideal agent's side of the conversation."""
        question = (ASK_USER,) if self.asked else ()
        return (*question, *(c.text() for c in self.calls), self.closing)


def make_scenario(domain: Domain, level: int, kind: str, number: int) -> Scenario:
    """Make the number-th task of a kind."""
    rng = Chance(f"desk/{VERSION}/{domain.name}/{level}/{kind}/{number}")
    rules, parsed = LEVELS[level], parse_kind(kind)
    user = f"u{rng.between(10, 99)}"
    database = domain.populate(rng, user, rng.between(rules.fewest, rules.most))
    records = database.tables[domain.table]
    # With an id in hand all requests are about that record, else about one record each.
    wanted = len(parsed.requests)
    targets = [next(iter(records))] * wanted if rules.named else rng.sample(list(records), wanted)
    goals = [
        domain.intents[request.intent](Site(rng, database, key, records[key], request.outcome))
        for key, request in zip(targets, parsed.requests, strict=True)
    ]
    calls = _gold_calls(domain, user, goals, targets, rules.named)
    refs = _references(domain, database, targets, rules.named)
    slots = [slot(user, "user", "who", "account", "id", "name")]
    slots.append(slot(", ".join(dict.fromkeys(refs)), domain.noun, "which"))
    return Scenario(
        domain=domain,
        level=level,
        kind=kind,
        database=database,
        # The wording is drawn last: the problem above does not depend on it.
        request=_request(rng, goals, refs, user, parsed, rules.named),
        slots=(*slots, *(s for goal in goals for s in goal.slots)),
        facts=tuple(fact for goal in goals for fact in goal.facts),
        calls=calls,
        asked=parsed.asked,
        closing=_closing(goals),
        content=digest(kind, repr(database.tables), repr([(c.name, c.arguments) for c in calls])),
    )


def _references(domain: Domain, database: Database, keys: list[str], named: bool) -> list[str]:
    if named:
        return [f"{domain.noun} {key}" for key in keys]
    return [domain.describe(database, database.tables[domain.table][key]) for key in keys]


def _gold_calls(
    domain: Domain, user: str, goals: list[Goal], targets: list[str], named: bool
) -> tuple[Call, ...]:
    """List the ideal agent's calls: find out, act, and hand over last what is left."""
    calls: list[Call] = []
    if not named:
        calls.append(call(domain.list_tool, user=user))
    elif any(goal.look for goal in goals):
        calls.append(call(domain.detail_tool, id=targets[0]))
    for goal in goals:
        calls += goal.reads + goal.writes
    if any(goal.handover for goal in goals):
        calls.append(call(HANDOVER))
    return tuple(calls)


def _closing(goals: list[Goal]) -> str:
    """Word the ideal agent's last message: that it is done, and what must be told."""
    done = ["Done."] if any(goal.writes for goal in goals) else []
    return " ".join(done + [goal.answer for goal in goals if goal.answer])


def _request(
    rng: Chance, goals: list[Goal], refs: list[str], user: str, kind: Kind, named: bool
) -> str:
    """Word the user's first message: one sentence of wishes, and perhaps one to say who."""
    wishes = [
        rng.pick(goal.wishes).replace("{ref}", ref) for goal, ref in zip(goals, refs, strict=True)
    ]
    *first, last = wishes
    joined = f"{', '.join(first)} and {last}" if first else last
    sentence = rng.pick(_FRAMES).format(joined)
    if named or kind.asked:
        return sentence
    name = rng.pick(_NAMES).format(user)
    return f"{name} {sentence}" if rng.happens(0.5) else f"{sentence} {name}"

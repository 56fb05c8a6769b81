"""The telecom desk: phone lines. A line's terms decide some requests, a diagnosis others."""

from __future__ import annotations

import re

from recollect.envs.desk.chance import Chance
from recollect.envs.desk.database import Database, Record, Table
from recollect.envs.desk.domain import Domain, fresh_id, other_than
from recollect.envs.desk.facts import MONEY, one_of
from recollect.envs.desk.goal import (
    HANDED,
    REFUSED,
    Goal,
    Intent,
    Site,
    call,
    refusal,
    slot,
    to_colleague,
    told,
)
from recollect.envs.desk.toolbox import (
    OK,
    Toolbox,
    changes,
    fetch,
    flag,
    handover,
    reads,
    text,
    whole,
    within,
)

POLICY = (
    "You are the phone desk. Roaming and data changes are free. Change the plan or close only "
    "with open terms: if fixed or trial, refuse and say which; if company, hand over. Tell a "
    "new plan's price. No data: check; settings, reset; roaming, turn on; bill, refuse and say "
    "bill; tower, hand over."
)

LABELS = ("home", "work", "kid", "car", "tablet", "alarm", "boat", "shop")
PLANS = ("mini", "midi", "maxi")
TERMS = ("open", "fixed", "trial", "company")
FAULTS = ("settings", "roaming", "bill", "tower")
MOST_GB = 20

_TERMS_FOR = {"": ("open",), REFUSED: ("fixed", "trial"), HANDED: ("company",)}
_FAULT_FOR = {"": "settings", "roaming": "roaming", "bill": "bill", HANDED: "tower"}


def _line(key: str, record: Record) -> str:
    roaming = "on" if record["roaming"] else "off"
    return (
        f"{key} {record['label']} {record['plan']} {record['gb']}GB roaming={roaming} "
        f"{record['terms']}"
    )


def lines(database: Database, user: str) -> str:
    """List the lines of a user."""
    rows = database.tables["lines"].items()
    return "\n".join(_line(key, r) for key, r in rows if r["user"] == user) or "none"


def line(database: Database, id: str) -> str:
    """Show one line."""
    return _line(id, fetch(database, "lines", id))


def plans(database: Database) -> str:
    """List the plans and their prices."""
    return "\n".join(f"{key} ${p['price']}" for key, p in database.tables["plans"].items())


def check(database: Database, id: str) -> str:
    """Find out what is wrong with a line."""
    return f"fault={fetch(database, 'lines', id)['fault']}"


def roaming(database: Database, id: str, on: bool) -> str:
    """Turn roaming on or off; on also mends a line whose fault was that."""
    record = fetch(database, "lines", id)
    record["roaming"] = on
    if on and record["fault"] == "roaming":
        record["fault"] = "none"
    return OK


def topup(database: Database, id: str, gb: int) -> str:
    """Add data to a line."""
    record = fetch(database, "lines", id)
    # Repeated calls must not let the number, and the text that shows it, grow without bound.
    record["gb"] = min(int(record["gb"]) + within(gb, 1, MOST_GB), 999)
    return OK


def plan(database: Database, id: str, plan: str) -> str:
    """Change the plan of a line."""
    fetch(database, "lines", id)["plan"] = plan
    return OK


def reset(database: Database, id: str) -> str:
    """Reset the settings of a line, which mends a line whose fault was that."""
    record = fetch(database, "lines", id)
    if record["fault"] == "settings":
        record["fault"] = "none"
    return OK


def close(database: Database, id: str) -> str:
    """Close a line."""
    fetch(database, "lines", id)
    del database.tables["lines"][id]
    return OK


def _populate(rng: Chance, user: str, count: int) -> Database:
    lines: Table = {}
    for label in rng.sample(LABELS, count):
        fault = rng.pick(FAULTS)
        lines[fresh_id(rng, lines)] = {
            "user": user,
            "label": label,
            "plan": rng.pick(PLANS),
            "gb": rng.below(10),
            "roaming": fault != "roaming" and rng.happens(0.5),
            "terms": rng.pick(TERMS),
            "fault": fault,
        }
    prices = sorted(rng.sample(range(5, 60), len(PLANS)))
    plans: Table = {key: {"price": p} for key, p in zip(PLANS, prices, strict=True)}
    return Database({"lines": lines, "plans": plans})


def _describe(database: Database, record: Record) -> str:
    return f"my {record['label']} line"


def _roaming(site: Site) -> Goal:
    on = not site.record["roaming"]
    word = "on" if on else "off"
    wishes = (
        f"turn roaming {word} for {{ref}}",
        f"switch {word} roaming for {{ref}}",
        f"set roaming to {word} on {{ref}}",
    )
    known = slot(f"Roaming {word}", "roaming")
    return Goal(wishes, writes=(call("roaming", id=site.id, on=on),), slots=(known,))


def _topup(site: Site) -> Goal:
    gb = site.rng.between(1, 9)
    wishes = (f"add {gb} GB to {{ref}}", f"put {gb} GB on {{ref}}", f"top up {{ref}} by {gb} GB")
    known = slot(f"{gb} GB", "gb", "much", "many", "data")
    return Goal(wishes, writes=(call("topup", id=site.id, gb=gb),), slots=(known,))


def _data(site: Site) -> Goal:
    gb = str(site.record["gb"])
    wishes = ("tell me the data left on {ref}", "say how much data {ref} has")
    return Goal(wishes, look=True, facts=told("gb", gb), answer=f"It is {gb} GB.")


def _price(site: Site) -> Goal:
    """Ask what a plan costs: a question about no line at all."""
    name = site.rng.pick(PLANS)
    price = str(site.database.tables["plans"][name]["price"])
    wishes = (f"tell me the price of the {name} plan", f"say what the {name} plan costs")
    facts = told("money", price)
    known = slot(name, "plan")
    return Goal(
        wishes, reads=(call("plans"),), facts=facts, answer=f"It is ${price}.", slots=(known,)
    )


def _plan(site: Site) -> Goal:
    terms = site.record["terms"] = site.rng.pick(_TERMS_FOR[site.outcome])
    name = other_than(site.rng, PLANS, site.record["plan"])
    wishes = (
        f"change {{ref}} to the {name} plan",
        f"put {{ref}} on the {name} plan",
        f"move {{ref}} to the {name} plan",
    )
    slots = (slot(name, "plan"),)
    if site.outcome == REFUSED:
        return refusal("reason", terms, wishes, slots)
    if site.outcome == HANDED:
        return to_colleague(wishes, slots)
    price = str(site.database.tables["plans"][name]["price"])
    reads, writes = (call("plans"),), (call("plan", id=site.id, plan=name),)
    answer = f"The price is ${price}."
    return Goal(wishes, True, reads, writes, told("money", price), answer=answer, slots=slots)


def _close(site: Site) -> Goal:
    terms = site.record["terms"] = site.rng.pick(_TERMS_FOR[site.outcome])
    wishes = ("close {ref}", "cancel {ref}", "end {ref}")
    if site.outcome == REFUSED:
        return refusal("reason", terms, wishes)
    if site.outcome == HANDED:
        return to_colleague(wishes)
    return Goal(wishes, look=True, writes=(call("close", id=site.id),))


def _fix(site: Site) -> Goal:
    fault = _FAULT_FOR[site.outcome]
    site.record["fault"] = fault
    if fault == "roaming":
        site.record["roaming"] = False
    wishes = ("fix the data on {ref}", "get data back on {ref}", "repair the data of {ref}")
    reads = (call("check", id=site.id),)
    known = (slot("No data", "problem", "wrong", "fault"),)
    if fault == "bill":
        reason = told("reason", "bill")
        return Goal(wishes, reads=reads, facts=reason, answer="Sorry, bill.", slots=known)
    if fault == "tower":
        answer = "A colleague will help."
        return Goal(wishes, reads=reads, handover=True, answer=answer, slots=known)
    mend = call("roaming", id=site.id, on=True) if fault == "roaming" else call("reset", id=site.id)
    return Goal(wishes, reads=reads, writes=(mend,), slots=known)


INTENTS: dict[str, Intent] = {
    "roaming": _roaming,
    "topup": _topup,
    "data": _data,
    "price": _price,
    "plan": _plan,
    "close": _close,
    "fix": _fix,
}

KINDS = {
    1: ("roaming", "topup", "data", "price"),
    2: ("roaming", "topup", "data", "ask.roaming", "ask.topup"),
    3: (
        "plan",
        "plan-refused",
        "close",
        "close-refused",
        "fix",
        "fix-roaming",
        "fix-bill",
        "fix-handover",
        "roaming+topup",
        "data+roaming",
    ),
    4: (
        "plan+topup",
        "plan-refused+roaming",
        "plan-handover+topup",
        "close+roaming",
        "close-refused+topup",
        "close-handover+roaming",
        "fix+topup",
        "fix-roaming+topup",
        "fix-bill+topup",
        "fix-handover+topup",
        "close+plan-refused",
        "ask.close+topup",
        "ask.fix+roaming",
        "close+roaming+topup",
    ),
}

_ID = text("id", "line id")

TELECOM = Domain(
    name="telecom",
    policy=POLICY,
    toolbox=Toolbox(
        reads(lines, "lines of a user", text("user", "user id")),
        reads(line, "one line", _ID),
        reads(plans, "plans and prices"),
        reads(check, "what is wrong with a line", _ID),
        changes(roaming, "turn roaming on or off", _ID, flag("on", "on or off")),
        changes(topup, "add data", _ID, whole("gb", "gigabytes to add")),
        changes(plan, "change the plan", _ID, text("plan", "new plan", *PLANS)),
        changes(reset, "reset the settings", _ID),
        changes(close, "close a line", _ID),
        changes(handover, "give the case to a human"),
    ),
    table="lines",
    noun="line",
    list_tool="lines",
    detail_tool="line",
    populate=_populate,
    describe=_describe,
    intents=INTENTS,
    kinds=KINDS,
    patterns={
        "gb": re.compile(r"\b(\d{1,3})\s?gb\b", re.IGNORECASE),
        "reason": one_of("fixed", "trial", "company", "bill"),
        "money": MONEY,
    },
    constant_refusal="Sorry, fixed.",
)

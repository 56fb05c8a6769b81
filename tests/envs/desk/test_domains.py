"""What each domain's tools do, and that its policy decides as it says."""

from __future__ import annotations

import pytest

from recollect.envs.desk.database import Database
from recollect.envs.desk.environment import DOMAINS, Desk
from recollect.envs.desk.goal import call
from recollect.envs.tools import Call

AIRLINE = {
    "bookings": {
        "B4K7": {"user": "u31", "flight": "F12", "fare": "flex", "seat": "aisle", "bags": 1}
    },
    "flights": {
        "F12": {"to": "Rome", "day": "Mon", "fee": 20, "full": False},
        "F31": {"to": "Rome", "day": "Wed", "fee": 35, "full": True},
        "F40": {"to": "Oslo", "day": "Wed", "fee": 10, "full": False},
    },
}
RETAIL = {
    "orders": {
        "R3T8": {
            **{"user": "u31", "item": "mug", "color": "red", "price": 12},
            **{"state": "pending", "city": "Bern", "wrap": False},
        }
    },
    "products": {
        "p12": {"item": "mug", "color": "blue", "left": 4},
        "p31": {"item": "lamp", "color": "red", "left": 0},
    },
}
TELECOM = {
    "lines": {
        "T4K7": {
            **{"user": "u31", "label": "home", "plan": "mini", "gb": 3},
            **{"roaming": False, "terms": "open", "fault": "settings"},
        }
    },
    "plans": {"mini": {"price": 9}, "midi": {"price": 19}, "maxi": {"price": 31}},
}
TABLES = {"airline": AIRLINE, "retail": RETAIL, "telecom": TELECOM}


def run(domain: str, *calls: Call) -> tuple[str, Database]:
    """Run calls on a fresh database; give the last answer and the database."""
    database = Database(TABLES[domain]).copy()
    answer = ""
    for one in calls:
        answer, _ = DOMAINS[domain].toolbox.run(database, one)
    return answer, database


@pytest.mark.parametrize(
    ("domain", "asked", "answer"),
    [
        ("airline", call("find", user="u31"), "B4K7 Rome Mon flex aisle bags=1"),
        ("airline", call("booking", id="B4K7"), "B4K7 Rome Mon flex aisle bags=1"),
        ("airline", call("flights", to="Rome"), "F12 Mon $20\nF31 Wed full"),
        ("airline", call("flights", to="Atlantis"), "none"),
        ("airline", call("seat", id="B4K7", seat="x"), "Error: seat must be window|aisle|middle"),
        ("airline", call("bags", id="B4K7", count=6), "Error: must be 0 to 5"),
        ("airline", call("bags", id="B4K7", count=10**400), "Error: must be 0 to 5"),
        ("airline", call("move", id="B4K7", flight="F40"), "Error: other city"),
        ("airline", call("move", id="B4K7", flight="F99"), "Error: unknown id"),
        ("retail", call("orders", user="u31"), "R3T8 mug red $12 pending Bern"),
        ("retail", call("order", id="R3T8"), "R3T8 mug red $12 pending Bern"),
        ("retail", call("stock", item="mug"), "p12 blue left=4"),
        ("retail", call("stock", item="sun"), "none"),
        ("retail", call("swap", id="R3T8", product="p31"), "Error: other item"),
        ("retail", call("wrap", id="R3T8", on="yes"), "Error: on must be boolean"),
        ("telecom", call("lines", user="u31"), "T4K7 home mini 3GB roaming=off open"),
        ("telecom", call("line", id="T4K7"), "T4K7 home mini 3GB roaming=off open"),
        ("telecom", call("plans"), "mini $9\nmidi $19\nmaxi $31"),
        ("telecom", call("check", id="T4K7"), "fault=settings"),
        ("telecom", call("topup", id="T4K7", gb=0), "Error: must be 1 to 20"),
        ("telecom", call("plan", id="T4K7", plan="mega"), "Error: plan must be mini|midi|maxi"),
    ],
)
def test_answers(domain, asked, answer):
    said, database = run(domain, asked)
    assert said == answer
    assert database == Database(TABLES[domain])


@pytest.mark.parametrize(
    ("domain", "asked", "field", "value"),
    [
        ("airline", call("seat", id="B4K7", seat="window"), "seat", "window"),
        ("airline", call("bags", id="B4K7", count=0), "bags", 0),
        ("airline", call("move", id="B4K7", flight="F31"), "flight", "F31"),
        ("retail", call("wrap", id="R3T8", on=True), "wrap", True),
        ("retail", call("reroute", id="R3T8", city="Lyon"), "city", "Lyon"),
        ("retail", call("cancel", id="R3T8"), "state", "cancelled"),
        ("retail", call("refund", id="R3T8"), "state", "refunded"),
        ("retail", call("swap", id="R3T8", product="p12"), "color", "blue"),
        ("telecom", call("roaming", id="T4K7", on=True), "roaming", True),
        ("telecom", call("topup", id="T4K7", gb=5), "gb", 8),
        ("telecom", call("plan", id="T4K7", plan="maxi"), "plan", "maxi"),
        ("telecom", call("reset", id="T4K7"), "fault", "none"),
    ],
)
def test_changes_one_field_and_no_other(domain, asked, field, value):
    answer, database = run(domain, asked)
    assert answer == "ok"
    table = DOMAINS[domain].table
    (key,) = TABLES[domain][table]
    expected = Database(TABLES[domain]).copy()
    expected.tables[table][key][field] = value
    assert database == expected


@pytest.mark.parametrize(
    ("domain", "asked"),
    [("airline", call("cancel", id="B4K7")), ("telecom", call("close", id="T4K7"))],
)
def test_what_is_cancelled_is_gone(domain, asked):
    answer, database = run(domain, asked)
    assert answer == "ok"
    assert database.tables[DOMAINS[domain].table] == {}
    assert run(domain, asked, asked)[0] == "Error: unknown id"


def test_mending_needs_the_right_cure():
    for fault, cure, left in (
        ("settings", call("reset", id="T4K7"), "none"),
        ("settings", call("roaming", id="T4K7", on=True), "settings"),
        ("roaming", call("roaming", id="T4K7", on=True), "none"),
        ("roaming", call("reset", id="T4K7"), "roaming"),
        ("bill", call("reset", id="T4K7"), "bill"),
    ):
        database = Database(TELECOM).copy()
        database.tables["lines"]["T4K7"]["fault"] = fault
        DOMAINS["telecom"].toolbox.run(database, cure)
        assert database.tables["lines"]["T4K7"]["fault"] == left


def test_data_cannot_be_added_without_end():
    _, database = run("telecom", *[call("topup", id="T4K7", gb=20)] * 60)
    assert database.tables["lines"]["T4K7"]["gb"] == 999


def test_handing_over_is_remembered_and_happens_once():
    for domain in DOMAINS:
        answer, database = run(domain, call("handover"), call("handover"))
        assert answer == "ok"
        assert database.handed_over
        assert database.tables == TABLES[domain]


DECIDING = {
    ("airline", "cancel"): ("fare", {"flex"}),
    ("airline", "cancel-refused"): ("fare", {"basic", "promo"}),
    ("airline", "cancel-handover"): ("fare", {"group"}),
    ("airline", "move"): ("fare", {"flex"}),
    ("airline", "move-refused"): ("fare", {"basic", "promo"}),
    ("retail", "cancel"): ("state", {"pending"}),
    ("retail", "cancel-refused"): ("state", {"shipped", "delivered"}),
    ("retail", "cancel-handover"): ("state", {"disputed"}),
    ("retail", "refund"): ("state", {"delivered"}),
    ("retail", "refund-refused"): ("state", {"pending", "shipped"}),
    ("retail", "swap"): ("state", {"pending", "shipped", "delivered"}),
    ("telecom", "plan"): ("terms", {"open"}),
    ("telecom", "plan-refused"): ("terms", {"fixed", "trial"}),
    ("telecom", "close"): ("terms", {"open"}),
    ("telecom", "close-refused"): ("terms", {"fixed", "trial"}),
    ("telecom", "fix"): ("fault", {"settings"}),
    ("telecom", "fix-roaming"): ("fault", {"roaming"}),
    ("telecom", "fix-bill"): ("fault", {"bill"}),
    ("telecom", "fix-handover"): ("fault", {"tower"}),
}


@pytest.mark.parametrize(("domain", "kind"), DECIDING)
def test_the_deciding_fact_decides(domain, kind):
    """The outcome agrees with the policy on the record that the request is about."""
    field, allowed = DECIDING[domain, kind]
    desk = Desk()
    seen = set()
    for number in range(60):
        scenario = desk.scenario(f"{domain}:3:{kind}:{number}")
        records = scenario.database.tables[DOMAINS[domain].table]
        key = next(k for k in records if k in scenario.request)
        value = records[key][field]
        seen.add(value)
        writes = [c for c in scenario.calls if DOMAINS[domain].toolbox.writes(c.name)]
        if kind.endswith("handover"):
            assert writes == [call("handover")]
        elif kind.endswith(("refused", "bill")):
            assert not writes
            assert str(value) in scenario.closing
        else:
            assert len(writes) == 1
            assert writes[0].arguments["id"] == key
    assert seen == allowed


def test_full_flights_and_sold_products_are_refused():
    desk = Desk()
    for number in range(40):
        for kind, expected in (("move", False), ("move-full", True)):
            scenario = desk.scenario(f"airline:3:{kind}:{number}")
            day = scenario.request.rstrip(".?").split()[-1]
            city = scenario.calls[1].arguments["to"]
            (flight,) = [
                f
                for f in scenario.database.tables["flights"].values()
                if (f["to"], f["day"]) == (city, day)
            ]
            assert flight["full"] is expected
            assert (f"${flight['fee']}" in scenario.closing) is not expected
        for kind, expected in (("swap", False), ("swap-sold", True)):
            scenario = desk.scenario(f"retail:3:{kind}:{number}")
            color = scenario.request.rstrip(".?").split()[-1]
            item = scenario.calls[1].arguments["item"]
            (product,) = [
                p
                for p in scenario.database.tables["products"].values()
                if (p["item"], p["color"]) == (item, color)
            ]
            assert (product["left"] == 0) is expected


def test_descriptions_tell_the_users_records_apart():
    desk = Desk()
    for domain, described in DOMAINS.items():
        for number in range(50):
            database = desk.scenario(f"{domain}:4:{described.kinds[4][0]}:{number}").database
            records = database.tables[described.table].values()
            phrases = [described.describe(database, record) for record in records]
            assert len(set(phrases)) == len(phrases) >= 3

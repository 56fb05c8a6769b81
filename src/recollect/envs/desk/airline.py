"""The airline desk: bookings on flights. The fare decides what may be changed."""

from __future__ import annotations

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
    ToolError,
    changes,
    fetch,
    handover,
    reads,
    text,
    whole,
    within,
)

POLICY = (
    "You are the airline desk. Seats and bags are free to change. Cancel or move only flex "
    "bookings: if basic or promo, refuse and say which; if group, hand over. When moving, tell "
    "the fee; if the flight is full, refuse and say full."
)

CITIES = ("Rome", "Oslo", "Paris", "Cairo", "Lima", "Tokyo", "Delhi", "Quito", "Bonn", "Nice")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SEATS = ("window", "aisle", "middle")
FARES = ("flex", "basic", "promo", "group")
MOST_BAGS = 5

_FARES_FOR = {
    "": ("flex",),
    "full": ("flex",),
    REFUSED: ("basic", "promo"),
    HANDED: ("group",),
}


def _line(database: Database, key: str, record: Record) -> str:
    flight = database.tables["flights"][str(record["flight"])]
    return (
        f"{key} {flight['to']} {flight['day']} {record['fare']} {record['seat']} "
        f"bags={record['bags']}"
    )


def find(database: Database, user: str) -> str:
    """List the bookings of a user."""
    rows = database.tables["bookings"].items()
    lines = [_line(database, key, record) for key, record in rows if record["user"] == user]
    return "\n".join(lines) or "none"


def booking(database: Database, id: str) -> str:
    """Show one booking."""
    return _line(database, id, fetch(database, "bookings", id))


def flights(database: Database, to: str) -> str:
    """List the flights to a city, with the fee for moving to them."""
    rows = database.tables["flights"].items()
    lines = [
        f"{key} {flight['day']} {'full' if flight['full'] else '$' + str(flight['fee'])}"
        for key, flight in rows
        if flight["to"] == to
    ]
    return "\n".join(lines) or "none"


def seat(database: Database, id: str, seat: str) -> str:
    """Change the seat of a booking."""
    fetch(database, "bookings", id)["seat"] = seat
    return OK


def bags(database: Database, id: str, count: int) -> str:
    """Set the number of bags of a booking."""
    fetch(database, "bookings", id)["bags"] = within(count, 0, MOST_BAGS)
    return OK


def cancel(database: Database, id: str) -> str:
    """Cancel a booking."""
    fetch(database, "bookings", id)
    del database.tables["bookings"][id]
    return OK


def move(database: Database, id: str, flight: str) -> str:
    """Move a booking to another flight to the same city."""
    record = fetch(database, "bookings", id)
    target = fetch(database, "flights", flight)
    if target["to"] != database.tables["flights"][str(record["flight"])]["to"]:
        raise ToolError("other city")
    record["flight"] = flight
    return OK


def _populate(rng: Chance, user: str, count: int) -> Database:
    bookings: Table = {}
    flights: Table = {}
    numbers = rng.sample(range(10, 100), 3 * count)
    for place, city in enumerate(rng.sample(CITIES, count)):
        keys = [f"F{number}" for number in numbers[3 * place : 3 * place + 3]]
        for key, day in zip(keys, rng.sample(DAYS, 3), strict=True):
            fee, full = 5 * rng.between(2, 12), rng.happens(0.3)
            flights[key] = {"to": city, "day": day, "fee": fee, "full": full}
        bookings[fresh_id(rng, bookings)] = {
            "user": user,
            "flight": rng.pick(keys),
            "fare": rng.pick(FARES),
            "seat": rng.pick(SEATS),
            "bags": rng.between(0, MOST_BAGS),
        }
    return Database({"bookings": bookings, "flights": dict(sorted(flights.items()))})


def _describe(database: Database, record: Record) -> str:
    return f"my {database.tables['flights'][str(record['flight'])]['to']} flight"


def _seat(site: Site) -> Goal:
    choice = other_than(site.rng, SEATS, site.record["seat"])
    wishes = (
        f"give {{ref}} the {choice} seat",
        f"change the seat of {{ref}} to {choice}",
        f"book the {choice} seat on {{ref}}",
    )
    return Goal(
        wishes, writes=(call("seat", id=site.id, seat=choice),), slots=(slot(choice, "seat"),)
    )


def _bags(site: Site) -> Goal:
    now = site.record["bags"]
    count = site.rng.pick([n for n in range(MOST_BAGS + 1) if n != now])
    bags = f"{count} bag" if count == 1 else f"{count} bags"
    wishes = (f"set {{ref}} to {bags}", f"change {{ref}} to {bags}", f"make it {bags} on {{ref}}")
    write = call("bags", id=site.id, count=count)
    return Goal(wishes, writes=(write,), slots=(slot(str(count), "bags", "bag", "many"),))


def _day(site: Site) -> Goal:
    flight = site.database.tables["flights"][str(site.record["flight"])]
    wishes = ("tell me the day of {ref}", "say which day {ref} leaves")
    answer = str(flight["day"])
    return Goal(wishes, look=True, facts=told("day", answer), answer=f"It is {answer}.")


def _flight(site: Site) -> Goal:
    """Ask which flight goes to a city on a day: a question about no booking at all."""
    key, flight = site.rng.pick(sorted(site.database.tables["flights"].items()))
    city, day = str(flight["to"]), str(flight["day"])
    wishes = (
        f"find me the flight to {city} on {day}",
        f"tell me which flight goes to {city} on {day}",
    )
    return Goal(
        wishes,
        reads=(call("flights", to=city),),
        facts=told("flight", key),
        answer=f"It is {key}.",
        slots=(slot(city, "city", "where"), slot(day, "day", "when")),
    )


def _cancel(site: Site) -> Goal:
    fare = site.record["fare"] = site.rng.pick(_FARES_FOR[site.outcome])
    wishes = ("cancel {ref}", "drop {ref}", "call off {ref}")
    if site.outcome == REFUSED:
        return refusal("reason", fare, wishes)
    if site.outcome == HANDED:
        return to_colleague(wishes)
    return Goal(wishes, look=True, writes=(call("cancel", id=site.id),))


def _move(site: Site) -> Goal:
    fare = site.record["fare"] = site.rng.pick(_FARES_FOR[site.outcome])
    flights = site.database.tables["flights"]
    city = flights[str(site.record["flight"])]["to"]
    others = [k for k, f in flights.items() if f["to"] == city and k != site.record["flight"]]
    key = site.rng.pick(sorted(others))
    target = flights[key]
    # A booking of another fare is moved to a full flight as often as any other: it decides nothing.
    if site.outcome in ("", "full"):
        target["full"] = site.outcome == "full"
    day = str(target["day"])
    wishes = (f"move {{ref}} to {day}", f"shift {{ref}} to {day}", f"rebook {{ref}} for {day}")
    slots = (slot(day, "day", "when", "date"),)
    if site.outcome == REFUSED:
        return refusal("reason", fare, wishes, slots)
    if site.outcome == HANDED:
        return to_colleague(wishes, slots)
    reads = (call("flights", to=str(city)),)
    if site.outcome == "full":
        reason = told("reason", "full")
        return Goal(wishes, True, reads, facts=reason, answer="Sorry, full.", slots=slots)
    fee = str(target["fee"])
    writes = (call("move", id=site.id, flight=key),)
    answer = f"The fee is ${fee}."
    return Goal(wishes, True, reads, writes, told("money", fee), answer=answer, slots=slots)


INTENTS: dict[str, Intent] = {
    "seat": _seat,
    "bags": _bags,
    "day": _day,
    "flight": _flight,
    "cancel": _cancel,
    "move": _move,
}

KINDS = {
    1: ("seat", "bags", "day", "flight"),
    2: ("seat", "bags", "day", "ask.seat", "ask.bags"),
    3: (
        "cancel",
        "cancel-refused",
        "cancel-handover",
        "move",
        "move-refused",
        "move-full",
        "seat+bags",
        "day+seat",
    ),
    4: (
        "cancel+seat",
        "cancel-refused+bags",
        "cancel-handover+seat",
        "move+bags",
        "move-refused+seat",
        "move-full+bags",
        "move-handover+bags",
        "cancel+cancel-refused",
        "ask.cancel+bags",
        "ask.cancel-refused+seat",
        "ask.move+seat",
        "cancel+seat+bags",
    ),
}

_ID = text("id", "booking id")

AIRLINE = Domain(
    name="airline",
    policy=POLICY,
    toolbox=Toolbox(
        reads(find, "bookings of a user", text("user", "user id")),
        reads(booking, "one booking", _ID),
        reads(flights, "flights to a city", text("to", "city")),
        changes(seat, "change the seat", _ID, text("seat", "new seat", *SEATS)),
        changes(bags, "set the number of bags", _ID, whole("count", "bags in all")),
        changes(cancel, "cancel a booking", _ID),
        changes(move, "move to another flight", _ID, text("flight", "flight id")),
        changes(handover, "give the case to a human"),
    ),
    table="bookings",
    noun="booking",
    list_tool="find",
    detail_tool="booking",
    populate=_populate,
    describe=_describe,
    intents=INTENTS,
    kinds=KINDS,
    patterns={
        "day": one_of("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
        "flight": one_of(r"f\d\d"),
        "reason": one_of("basic", "promo", "group", "full"),
        "money": MONEY,
    },
    constant_refusal="Sorry, basic.",
)

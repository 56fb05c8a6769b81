"""The retail desk: orders of things. The order's state decides what may be done with it."""

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
    flag,
    handover,
    reads,
    text,
)

POLICY = (
    "You are the shop desk. Wrapping and rerouting are free. Cancel only pending orders; refund "
    "only delivered ones and tell the amount; otherwise refuse and say the state. Swap if the "
    "color is in stock, else say sold. Disputed orders: hand over."
)

ITEMS = ("mug", "lamp", "chair", "coat", "tent", "bike", "vase", "clock", "scarf", "radio")
COLORS = ("red", "blue", "green", "black", "white")
TOWNS = ("Bern", "Graz", "Kiel", "Lyon", "Porto", "Turin", "Ghent", "Malmo")
STATES = ("pending", "shipped", "delivered", "disputed")


def _line(key: str, record: Record) -> str:
    wrapped = " wrapped" if record["wrap"] else ""
    return (
        f"{key} {record['item']} {record['color']} ${record['price']} {record['state']} "
        f"{record['city']}{wrapped}"
    )


def orders(database: Database, user: str) -> str:
    """List the orders of a user."""
    rows = database.tables["orders"].items()
    return "\n".join(_line(key, r) for key, r in rows if r["user"] == user) or "none"


def order(database: Database, id: str) -> str:
    """Show one order."""
    return _line(id, fetch(database, "orders", id))


def stock(database: Database, item: str) -> str:
    """List the products of an item and how many are left."""
    rows = database.tables["products"].items()
    lines = [f"{key} {p['color']} left={p['left']}" for key, p in rows if p["item"] == item]
    return "\n".join(lines) or "none"


def wrap(database: Database, id: str, on: bool) -> str:
    """Add or remove gift wrapping."""
    fetch(database, "orders", id)["wrap"] = on
    return OK


def reroute(database: Database, id: str, city: str) -> str:
    """Send an order to another city."""
    fetch(database, "orders", id)["city"] = city
    return OK


def cancel(database: Database, id: str) -> str:
    """Cancel an order."""
    fetch(database, "orders", id)["state"] = "cancelled"
    return OK


def refund(database: Database, id: str) -> str:
    """Pay back an order."""
    fetch(database, "orders", id)["state"] = "refunded"
    return OK


def swap(database: Database, id: str, product: str) -> str:
    """Swap an order's item for another color of it."""
    record = fetch(database, "orders", id)
    target = fetch(database, "products", product)
    if target["item"] != record["item"]:
        raise ToolError("other item")
    record["color"] = target["color"]
    return OK


def _populate(rng: Chance, user: str, count: int) -> Database:
    orders: Table = {}
    products: Table = {}
    numbers = rng.sample(range(10, 100), 3 * count)
    for place, item in enumerate(rng.sample(ITEMS, count)):
        ordered, *others = rng.sample(COLORS, 4)
        for number, color in zip(numbers[3 * place : 3 * place + 3], others, strict=True):
            left = 0 if rng.happens(0.3) else rng.between(1, 9)
            products[f"p{number}"] = {"item": item, "color": color, "left": left}
        orders[fresh_id(rng, orders)] = {
            "user": user,
            "item": item,
            "color": ordered,
            "price": rng.between(10, 99),
            "state": rng.pick(STATES),
            "city": rng.pick(TOWNS),
            "wrap": rng.happens(0.5),
        }
    return Database({"orders": orders, "products": dict(sorted(products.items()))})


def _describe(database: Database, record: Record) -> str:
    return f"my {record['item']} order"


def _wrap(site: Site) -> Goal:
    on = not site.record["wrap"]
    if on:
        wishes = ("wrap {ref} as a gift", "add gift wrap to {ref}")
    else:
        wishes = ("unwrap {ref}", "take the gift wrap off {ref}")
    known = slot("With gift wrap" if on else "Without gift wrap", "wrap", "gift", "wrapped")
    return Goal(wishes, writes=(call("wrap", id=site.id, on=on),), slots=(known,))


def _reroute(site: Site) -> Goal:
    city = other_than(site.rng, TOWNS, site.record["city"])
    wishes = (f"send {{ref}} to {city}", f"reroute {{ref}} to {city}", f"ship {{ref}} to {city}")
    known = slot(city, "city", "where", "address")
    return Goal(wishes, writes=(call("reroute", id=site.id, city=city),), slots=(known,))


def _state(site: Site) -> Goal:
    state = str(site.record["state"])
    wishes = ("tell me the state of {ref}", "say how {ref} is going")
    return Goal(wishes, look=True, facts=told("state", state), answer=f"It is {state}.")


def _price(site: Site) -> Goal:
    price = str(site.record["price"])
    wishes = ("tell me the price of {ref}", "say what {ref} cost")
    return Goal(wishes, look=True, facts=told("money", price), answer=f"It is ${price}.")


def _cancel(site: Site) -> Goal:
    wishes = ("cancel {ref}", "drop {ref}", "call off {ref}")
    if site.outcome == REFUSED:
        return _wrong_state(site, ("shipped", "delivered"), wishes)
    if site.outcome == HANDED:
        site.record["state"] = "disputed"
        return to_colleague(wishes)
    site.record["state"] = "pending"
    return Goal(wishes, look=True, writes=(call("cancel", id=site.id),))


def _refund(site: Site) -> Goal:
    wishes = ("refund {ref}", "pay back {ref}", "return {ref}")
    if site.outcome == REFUSED:
        return _wrong_state(site, ("pending", "shipped"), wishes)
    if site.outcome == HANDED:
        site.record["state"] = "disputed"
        return to_colleague(wishes)
    site.record["state"] = "delivered"
    price = str(site.record["price"])
    writes = (call("refund", id=site.id),)
    answer = f"You get ${price}."
    return Goal(wishes, True, writes=writes, facts=told("money", price), answer=answer)


def _wrong_state(site: Site, states: tuple[str, ...], wishes: tuple[str, ...]) -> Goal:
    state = site.rng.pick(states)
    site.record["state"] = state
    return refusal("state", state, wishes)


def _swap(site: Site) -> Goal:
    products = site.database.tables["products"]
    keys = sorted(k for k, p in products.items() if p["item"] == site.record["item"])
    key = site.rng.pick(keys)
    if site.outcome == HANDED:
        site.record["state"] = "disputed"
    else:
        if site.record["state"] == "disputed":
            site.record["state"] = "delivered"
        products[key]["left"] = 0 if site.outcome == "sold" else site.rng.between(1, 9)
    color = str(products[key]["color"])
    wishes = (f"swap {{ref}} for {color}", f"change {{ref}} to {color}", f"make {{ref}} {color}")
    slots = (slot(color, "color", "colour"),)
    if site.outcome == HANDED:
        return to_colleague(wishes, slots)
    reads = (call("stock", item=str(site.record["item"])),)
    if site.outcome == "sold":
        reason = told("reason", "sold")
        return Goal(wishes, True, reads, facts=reason, answer="Sorry, sold.", slots=slots)
    writes = (call("swap", id=site.id, product=key),)
    return Goal(wishes, True, reads, writes, slots=slots)


INTENTS: dict[str, Intent] = {
    "wrap": _wrap,
    "reroute": _reroute,
    "state": _state,
    "price": _price,
    "cancel": _cancel,
    "refund": _refund,
    "swap": _swap,
}

KINDS = {
    1: ("wrap", "reroute", "state", "price"),
    2: ("wrap", "reroute", "state", "ask.wrap", "ask.reroute"),
    3: (
        "cancel",
        "cancel-refused",
        "cancel-handover",
        "refund",
        "refund-refused",
        "swap",
        "swap-sold",
        "wrap+reroute",
        "price+wrap",
    ),
    4: (
        "cancel+wrap",
        "cancel-refused+reroute",
        "cancel-handover+wrap",
        "refund+reroute",
        "refund-refused+wrap",
        "refund-handover+reroute",
        "swap+wrap",
        "swap-sold+reroute",
        "swap-handover+wrap",
        "cancel+refund-refused",
        "ask.cancel+reroute",
        "ask.refund+wrap",
        "ask.swap+reroute",
        "cancel+wrap+reroute",
    ),
}

_ID = text("id", "order id")

RETAIL = Domain(
    name="retail",
    policy=POLICY,
    toolbox=Toolbox(
        reads(orders, "orders of a user", text("user", "user id")),
        reads(order, "one order", _ID),
        reads(stock, "products of an item", text("item", "item name")),
        changes(wrap, "gift wrap on or off", _ID, flag("on", "wrapped or not")),
        changes(reroute, "send to another city", _ID, text("city", "new city", *TOWNS)),
        changes(cancel, "cancel an order", _ID),
        changes(refund, "pay back an order", _ID),
        changes(swap, "swap for another color", _ID, text("product", "product id")),
        changes(handover, "give the case to a human"),
    ),
    table="orders",
    noun="order",
    list_tool="orders",
    detail_tool="order",
    populate=_populate,
    describe=_describe,
    intents=INTENTS,
    kinds=KINDS,
    patterns={
        "state": one_of(*STATES),
        "reason": one_of("sold"),
        "money": MONEY,
    },
    constant_refusal="Sorry, shipped.",
)

"""What a user wants, and what the ideal agent does about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from recollect.canonical import Json
from recollect.envs.desk.chance import Chance
from recollect.envs.desk.database import Database, Record
from recollect.envs.desk.facts import Fact
from recollect.envs.tools import Call

# What becomes of a request when the deciding fact forbids it or asks for a human.
REFUSED, HANDED = "refused", "handover"


@dataclass(frozen=True, slots=True)
class Slot:
    """A fact the user knows: words in a question that ask for it, and the answer."""

    words: frozenset[str]
    answer: str


@dataclass(frozen=True, slots=True)
class Goal:
    """One request with its gold.

    `wishes` are its paraphrases, with {ref} where the record is named. `look` says that the
    record must be read before anything else; `reads` and `writes` follow in this order;
    `facts` must be told; `answer` is how the gold agent tells them.
    """

    wishes: tuple[str, ...]
    look: bool = False
    reads: tuple[Call, ...] = ()
    writes: tuple[Call, ...] = ()
    facts: tuple[Fact, ...] = ()
    handover: bool = False
    answer: str = ""
    slots: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """Where a goal is made: a record in a database under construction.

    An intent may set fields of the record so that the wanted outcome is the right one.
    """

    rng: Chance
    database: Database
    id: str
    record: Record
    outcome: str


Intent: TypeAlias = Callable[[Site], Goal]


def call(name: str, **arguments: Json) -> Call:
    """Write a tool call in code the way it reads in text."""
    return Call(name, arguments)


def slot(answer: str, *words: str) -> Slot:
    """Make a slot that any of the words asks for."""
    return Slot(frozenset(words), answer)


def told(kind: str, value: str) -> tuple[Fact, ...]:
    """Require one fact."""
    return (Fact(kind, value.lower()),)


def to_colleague(wishes: tuple[str, ...], slots: tuple[Slot, ...] = ()) -> Goal:
    """Make the goal whose record belongs to a human: look, then hand over."""
    return Goal(wishes, look=True, handover=True, answer="A colleague will help.", slots=slots)


def refusal(kind: str, reason: str, wishes: tuple[str, ...], slots: tuple[Slot, ...] = ()) -> Goal:
    """Make the goal whose record forbids it: look, then refuse and say why."""
    return Goal(
        wishes, look=True, facts=told(kind, reason), answer=f"Sorry, {reason}.", slots=slots
    )

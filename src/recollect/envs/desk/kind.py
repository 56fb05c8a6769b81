"""The kind of a task: which requests it makes, with which outcome, and what it leaves unsaid.

Written `cancel-refused+seat`: two requests, of which the first has to be refused. A leading
`ask.` means that the user does not say who they are until asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

_ASK = "ask."


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a kind: the intent's name, and its outcome ("" = simply done)."""

    intent: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind taken apart."""

    asked: bool
    requests: tuple[Request, ...]


@cache
def parse_kind(name: str) -> Kind:
    """Take a kind's name apart; `Desk` accepts only the names its domains list."""
    asked = name.startswith(_ASK)
    requests = []
    for part in name.removeprefix(_ASK).split("+"):
        intent, _, outcome = part.partition("-")
        requests.append(Request(intent, outcome))
    return Kind(asked, tuple(requests))

"""What a domain has to say about itself; the mechanics around it are shared."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from recollect.envs.desk.chance import Chance
from recollect.envs.desk.database import Database, Record
from recollect.envs.desk.goal import Intent
from recollect.envs.desk.toolbox import Toolbox

# Letters that no digit can be mistaken for.
_LETTERS = "ABCDEFGHJKMNPQRTUVWX"


@dataclass(frozen=True, slots=True)
class Domain:
    """A service desk: its rules, its tools, and the requests that people bring to it.

    `table` holds the users' records, called `noun` in speech. `list_tool` shows those of a
    user, `detail_tool` one of them, in the same format. `populate` makes a database in which
    a user has so many records, each with another `describe` phrase. `patterns` find the
    facts that can be told. `constant_refusal` is what an agent says that refuses everything.
    """

    name: str
    policy: str
    toolbox: Toolbox
    table: str
    noun: str
    list_tool: str
    detail_tool: str
    populate: Callable[[Chance, str, int], Database]
    describe: Callable[[Database, Record], str]
    intents: Mapping[str, Intent]
    kinds: Mapping[int, tuple[str, ...]]
    patterns: Mapping[str, re.Pattern[str]]
    constant_refusal: str


def fresh_id(rng: Chance, taken: Mapping[str, object]) -> str:
    """Make a short id like B4K7 that is not taken yet."""
    while True:
        made = f"{rng.pick(_LETTERS)}{rng.below(10)}{rng.pick(_LETTERS)}{rng.below(10)}"
        if made not in taken:
            return made


def other_than(rng: Chance, choices: tuple[str, ...], current: object) -> str:
    """Choose something else than what is there, so that doing nothing is never right."""
    return rng.pick([choice for choice in choices if choice != current])

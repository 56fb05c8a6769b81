"""The state of one attempt: tau2's own environment object over databases that cost little to fork.

A fork shares what nobody writes to, so it costs the small parts of a database only; the airline's
nine thousand flights are never copied.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from recollect.canonical import Json
from recollect.envs.tau2.identifiers import Counter, counting
from recollect.envs.tau2.overlay import Overlay, Pen

Side = Literal["assistant", "user"]
Place = tuple[str, str, str]  # side, table, key of a record

_SIDES: tuple[Side, ...] = ("assistant", "user")
_CALCULATOR = "calculate"
_LONGEST_SUM = 200  # characters


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool said, and whether it worked."""

    text: str
    worked: bool


class World:
    """A state that one attempt owns. Promise: nothing done to it is seen by any other."""

    def __init__(self, environment: Any, pen: Pen | None = None, count: int = 0) -> None:
        self.environment = environment
        self._pen = pen or Pen()
        self._counter = Counter(count)

    def fork(self, whole: bool = False) -> World:
        """Make a world like this one. `whole` copies everything, for code that wants plain data."""
        pen = Pen()
        made = copy.copy(self.environment)
        known: dict[int, Any] = {}  # both sides may share a database
        for attribute in ("tools", "user_tools"):
            kit = getattr(self.environment, attribute)
            if kit is not None:
                setattr(made, attribute, _fork_kit(kit, pen, known, whole))
        return World(made, pen, self._counter.number)

    def prepare(self, data: Any, actions: Any, history: list[Any]) -> None:
        """Bring a whole copy into a task's initial state, by tau2's own code."""
        self._pen.down = True
        with counting(self._counter):
            self.environment.set_state(
                initialization_data=data, initialization_actions=actions, message_history=history
            )
        self._pen.down = False

    def call(self, name: str, arguments: Mapping[str, Json], who: Side = "assistant") -> Answer:
        """Call a tool and bring both sides in line. Never raises: errors are the tool's answer."""
        if name == _CALCULATOR and not _is_small_sum(arguments.get("expression")):
            return Answer("Error: Invalid characters in expression", False)
        environment = self.environment
        self._pen.down = is_write(environment, name)
        try:
            with counting(self._counter):
                given = environment.make_tool_call(name, requestor=who, **arguments)
                self._pen.down = True
                environment.sync_tools()
                self._pen.down = False
            return Answer(str(environment.to_json_str(given)), True)
        except Exception as error:  # a stranger's tool on an agent's arguments
            return Answer(f"Error: {error}", False)
        finally:
            self._pen.down = False

    def replay(self, name: str, arguments: Mapping[str, Json], who: Side) -> bool:
        """Call a tool as tau2's evaluator plays gold: without bringing the sides in line."""
        self._pen.down = is_write(self.environment, name)
        try:
            with counting(self._counter):
                self.environment.make_tool_call(name, requestor=who, **arguments)
            return True
        except Exception:  # gold lists hold calls that fail; the evaluator goes on, too
            return False
        finally:
            self._pen.down = False

    def holds(self, assertions: Iterable[Any]) -> bool:
        """Try all of tau2's assertions. They run on a fork: judging changes nothing.

        One that raises, because the record it asks about is not there, does not hold.
        """
        trial = self.fork()
        trial._pen.down = True
        try:
            with counting(trial._counter):
                return all(
                    trial.environment.run_env_assertion(each, raise_assertion_error=False)
                    for each in assertions
                )
        except Exception:  # a stranger's code on a state that an agent left: the reward boundary
            return False

    def touched(self) -> frozenset[Place]:
        """Name the records that may differ from those of the world this one was forked from."""
        return frozenset(
            (side, table, key)
            for side, kit in self._kits()
            for table in type(kit.db).model_fields
            if isinstance(rows := getattr(kit.db, table), Overlay)
            for key in rows.touched
        )

    def picture(self, places: Collection[Place], hash: Any) -> dict[str, str]:
        """Hash both databases as tau2 does, of large tables only the records at `places`.

        Two forks of one world have equal pictures of all that either touched exactly where
        their databases have equal hashes.
        """
        found: dict[str, str] = {}
        for side, kit in self._kits():
            shown: dict[str, Any] = {}
            for table in type(kit.db).model_fields:
                rows = getattr(kit.db, table)
                if isinstance(rows, Overlay):
                    keys = [k for s, t, k in places if (s, t) == (side, table) and k in rows]
                    rows = {key: rows[key] for key in keys}
                shown[table] = rows
            found[side] = str(hash(type(kit.db).model_construct(**shown).model_dump()))
        return found

    def whole_picture(self, hash: Any) -> dict[str, str]:
        """Hash both databases whole, as tau2 does; slow where they are large."""
        places = {
            (side, table, key)
            for side, kit in self._kits()
            for table in type(kit.db).model_fields
            if isinstance(rows := getattr(kit.db, table), Overlay)
            for key in rows
        }
        return self.picture(places, hash)

    def _kits(self) -> list[tuple[Side, Any]]:
        kits = (self.environment.tools, self.environment.user_tools)
        return [(s, k) for s, k in zip(_SIDES, kits, strict=True) if k is not None]


def _fork_kit(kit: Any, pen: Pen, known: dict[int, Any], whole: bool) -> Any:
    made = copy.copy(kit)
    for name, value in vars(kit).items():
        if name != "db":  # such as a generator of identifiers
            setattr(made, name, copy.deepcopy(value))
    if id(kit.db) not in known:
        known[id(kit.db)] = copy.deepcopy(kit.db) if whole else _fork_database(kit.db, pen)
    made.db = known[id(kit.db)]
    return made


def _fork_database(database: Any, pen: Pen) -> Any:
    """Lay tables that are dictionaries under overlays, and copy the rest."""
    tables = {}
    for name in type(database).model_fields:
        value = getattr(database, name)
        is_table = isinstance(value, dict | Overlay)
        tables[name] = Overlay(value, pen) if is_table else copy.deepcopy(value)
    return type(database).model_construct(**tables)


def _is_small_sum(expression: object) -> bool:
    """Tell a sum from a tower of powers, which tau2's calculator would work on for ever."""
    return not isinstance(expression, str) or (
        "**" not in expression and len(expression) <= _LONGEST_SUM
    )


def is_write(environment: Any, name: str) -> bool:
    """Tell whether a tool may change the state; tau2 has had this under two names."""
    ask = getattr(environment, "_is_mutating_tool", None) or environment.is_mutating_tool
    return bool(ask(name))

"""The tools of a desk: typed functions over the database, whose errors are texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recollect.envs.base import Parameter, ToolSpec
from recollect.envs.desk.database import Database, Record
from recollect.envs.tools import Call, argument_problem

HANDOVER = "handover"
OK = "ok"


class ToolError(Exception):
    """A tool cannot do what was asked; the agent reads the message."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's description and the function behind it.

    The function gets the database and the arguments by name, already of the declared types,
    and gives the text of the answer. It keeps data sound but does not enforce the policy:
    obeying that is what the agent has to learn.
    """

    spec: ToolSpec
    run: Callable[..., str]
    writes: bool = False


class Toolbox:
    """The tools of one domain by name."""

    __slots__ = ("_tools", "specs")

    def __init__(self, *tools: Tool) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in tools)

    def run(self, database: Database, call: Call) -> tuple[str, bool]:
        """Run a call and give its answer and whether it worked. Never raises."""
        tool = self._tools.get(call.name)
        if tool is None:
            return "Error: unknown tool", False
        problem = argument_problem(tool.spec, call.arguments)
        if problem is not None:
            return f"Error: {problem}", False
        try:
            return tool.run(database, **call.arguments), True
        except ToolError as error:
            return f"Error: {error}", False

    def writes(self, name: str) -> bool:
        """Tell whether a tool changes the database."""
        return self._tools[name].writes


def text(name: str, description: str = "", *choices: str) -> Parameter:
    """Declare a text argument, of a few choices if any are given."""
    return Parameter(name, "string", description, choices)


def whole(name: str, description: str = "") -> Parameter:
    """Declare a whole-number argument."""
    return Parameter(name, "integer", description)


def flag(name: str, description: str = "") -> Parameter:
    """Declare a true-or-false argument."""
    return Parameter(name, "boolean", description)


def reads(run: Callable[..., str], description: str, *parameters: Parameter) -> Tool:
    """Make a tool that only looks; the function's name is the tool's."""
    return Tool(ToolSpec(run.__name__, description, parameters), run)


def changes(run: Callable[..., str], description: str, *parameters: Parameter) -> Tool:
    """Make a tool that changes the database; the function's name is the tool's."""
    return Tool(ToolSpec(run.__name__, description, parameters), run, writes=True)


def fetch(database: Database, table: str, key: str) -> Record:
    """Get a record, or fail in a way the agent can read."""
    record = database.tables[table].get(key)
    if record is None:
        raise ToolError("unknown id")
    return record


def within(number: int, low: int, high: int) -> int:
    """Give the number back if it is in range, or fail in a way the agent can read."""
    if not low <= number <= high:
        raise ToolError(f"must be {low} to {high}")
    return number


def handover(database: Database) -> str:
    """Give the case to a human colleague."""
    database.handed_over = True
    return OK

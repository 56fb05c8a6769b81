"""The small database behind one task, which the agent's tools read and change."""

from __future__ import annotations

from typing import TypeAlias

Value: TypeAlias = "str | int | bool"
Record: TypeAlias = "dict[str, Value]"
Table: TypeAlias = "dict[str, Record]"


class Database:
    """Tables of records by id, and whether the case went to a human colleague.

    Two databases are equal when everything in them is. Episodes work on a copy, so the one
    that a scenario holds never changes.
    """

    __slots__ = ("handed_over", "tables")

    def __init__(self, tables: dict[str, Table], handed_over: bool = False) -> None:
        self.tables = tables
        self.handed_over = handed_over

    def copy(self) -> Database:
        """Give an independent copy; two levels by hand are ten times faster than deepcopy."""
        tables = {
            name: {key: dict(record) for key, record in table.items()}
            for name, table in self.tables.items()
        }
        return Database(tables, self.handed_over)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Database):
            return NotImplemented
        return self.handed_over == other.handed_over and self.tables == other.tables

    __hash__ = None  # type: ignore[assignment]  # it changes, so it must not be a key

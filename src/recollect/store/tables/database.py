"""The seam between our tables and what holds them.

Statements are written once, in the SQL that SQLite and PostgreSQL share, with `?` for values. A
`Database` runs them; its few words are where the two differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from recollect.store.address import Place


class Rows(Protocol):
    """What a statement found."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement (or all of an `executemany`) changed."""

    def fetchone(self) -> Any:
        """The next row, None if there is no more."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class Database(Protocol):
    """A connection to what holds the tables."""

    # Comparison in which NULL equals NULL.
    SAME: str
    # The strings of a JSON array that is bound as one value: a table with one column, `value`.
    EACH: str
    # What the driver raises.
    ERRORS: tuple[type[Exception], ...]

    @property
    def place(self) -> Place:
        """Where it is, for messages."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    def execute(self, sql: str, values: Sequence[object] = ..., /) -> Rows:
        """Run one statement."""

    def executemany(self, sql: str, rows: Iterable[Sequence[object]], /) -> Rows:
        """Run one statement for each row of values."""

    def define(self, statement: str) -> None:
        """Run one statement of the schema, which is written in SQLite's words for types."""

    def begin(self) -> None:
        """Open a transaction that writes; waits for other writers."""

    def commit(self) -> None:
        """Make the transaction durable."""

    def rollback(self) -> None:
        """Undo the transaction, if one is still open."""

    def moment(self) -> AbstractContextManager[None]:
        """Let all statements inside see the same state of the store."""

    def translated(self) -> AbstractContextManager[None]:
        """Raise our error for whatever the driver raises inside."""

    def reading(self) -> AbstractContextManager[None]:
        """Like `translated`, and for what a damaged row or a bad value may raise, too."""

    def schema_number(self) -> int:
        """The number of the schema it has, 0 if it has none."""

    def set_schema_number(self, number: int) -> None:
        """Write that number down, in the transaction that is open."""

    def given(self) -> Mapping[str, int]:
        """The largest number ever given to a row, by table."""

    def next_number(self, table: str, column: str = "number") -> int:
        """Tell which number the next row of a table gets; numbers are never given twice."""

    def remember_given(self, given: Mapping[str, int]) -> None:
        """Never give these numbers again, though the rows that had them may go."""

    def close(self) -> None:
        """Close the connection. Closing twice is fine."""

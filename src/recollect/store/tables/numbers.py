"""The small numbers that stand for run ids, task keys and fingerprints inside the file."""

from __future__ import annotations

from recollect.errors import UnknownId
from recollect.store.address import Place
from recollect.store.tables import schema
from recollect.store.tables.database import Database
from recollect.store.tables.schema import row_crc
from recollect.types import RunId, TaskKey


class Numbers:
    """Looks numbers up, remembering what it found until a transaction is rolled back.

    With `may_add`, a fingerprint triple that is new gets a number; otherwise it is unknown.
    """

    def __init__(self, connection: Database, path: Place, may_add: bool = False) -> None:
        self._connection = connection
        self.path = path
        self._may_add = may_add
        self._known: dict[tuple[str, ...], int] = {}

    def forget(self) -> None:
        """Drop what was learnt: a rolled-back transaction may have invented some of it."""
        self._known.clear()

    def run(self, run: RunId) -> int:
        """Number of a run, which must be stored."""
        return self._number(("runs", run), "SELECT number FROM runs WHERE id = ?", "run")

    def optional_run(self, run: RunId | None) -> int | None:
        """Number of a run, None for none."""
        return None if run is None else self.run(run)

    def task(self, key: TaskKey) -> int:
        """Number of a task, which must be stored."""
        return self._number(("tasks", key), "SELECT number FROM tasks WHERE key = ?", "task")

    def provenance(self, facts: tuple[str, str, str], at: float) -> int:
        """Number of a fingerprint triple, stored on first sight by whoever may."""
        key = ("provenances", *facts)
        if key not in self._known:
            table = schema.PROVENANCES
            match = " AND ".join(f"{column} = ?" for column in table.columns)
            find = f"SELECT number FROM provenances WHERE {match}"
            row = self._connection.execute(find, facts).fetchone()
            if row is None:
                row = (self._add_provenance(facts, at),)
            self._known[key] = int(row[0])
        return self._known[key]

    def _add_provenance(self, facts: tuple[str, str, str], at: float) -> int:
        if not self._may_add:
            raise UnknownId(self.path, "provenance", " ".join(facts))
        table = schema.PROVENANCES
        names = ", ".join(("number", *table.columns, "at", "crc"))
        row = (self._connection.next_number(table.name), *facts, at)
        self._connection.execute(
            f"INSERT INTO provenances ({names}) VALUES (?, ?, ?, ?, ?, ?)", (*row, row_crc(row))
        )
        return row[0]

    def _number(self, key: tuple[str, str], sql: str, kind: str) -> int:
        if key not in self._known:
            row = self._connection.execute(sql, [key[1]]).fetchone()
            if row is None:
                hint = f"Commit the {kind} itself in the same batch or before."
                raise UnknownId(self.path, kind, key[1], hint)
            self._known[key] = int(row[0])
        return self._known[key]

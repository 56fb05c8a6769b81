"""Writing a SQLite store: one transaction per batch, durable when it returns."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from recollect.errors import CorruptRecord, StoreReadOnly
from recollect.ledger import Mark
from recollect.store.lock import WriterLock
from recollect.store.records import Batch, Fence, Receipt, Reclaimed
from recollect.store.sqlite import insert, removal
from recollect.store.sqlite.connection import connect_writer, translated
from recollect.store.sqlite.journal import choose_journal
from recollect.store.sqlite.migrations import migrate
from recollect.store.sqlite.numbers import Numbers
from recollect.store.sqlite.reader import SqliteReader
from recollect.trajectory import Trajectory
from recollect.types import Action, RunId, TrajectoryId

_VERSION: tuple[int, int, int] = sqlite3.sqlite_version_info


class SqliteStore(SqliteReader):
    """The writer of one store file; promises as in `recollect.store.base.Store`.

    Holds the store's lock from construction to `close`. `journal` overrides the journal mode
    that `recollect.store.sqlite.journal` finds safe; `compress` stores frames with zstd.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        compress: bool = False,
        journal: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self._compress = compress
        self._clock = clock
        self._make_folder()
        self._lock = WriterLock(self.path)
        try:
            mode = journal or choose_journal(_VERSION, self.path.parent)
            self._connection = connect_writer(self.path, mode)
            with translated(self.path):
                migrate(self._connection, self.path)
        except BaseException:
            self._lock.release()
            raise
        self._numbers = Numbers(self._connection, self.path)

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreReadOnly(self.path, error.strerror or str(error)) from error

    def close(self) -> None:
        """Release files and locks. Closing twice is fine."""
        super().close()
        self._lock.release()

    def commit(self, batch: Batch) -> Receipt:
        """Write one batch durably."""
        return self.commit_all((batch,))

    def commit_all(self, batches: Iterable[Batch]) -> Receipt:
        """Write many batches in one transaction, holding one at a time in memory."""
        added = known = 0
        with self._transaction() as change:
            for batch in batches:
                work = insert.Insertion(
                    self._connection, self._numbers, self._clock(), change, self._compress
                )
                work.write(batch)
                added += work.added
                known += work.known
        return Receipt(added, known, change)

    def fence(self, run: RunId, after_step: int, reason: str) -> Fence:
        """Set aside everything the run wrote for later steps, undoing their uses and marks."""
        with self._transaction() as change:
            number = self._numbers.run(run)
            return removal.fence(
                self._connection, run, number, after_step, reason, self._clock(), change
            )

    def reclaim(
        self, run: RunId | None = None, through_step: int | None = None, fenced: bool = False
    ) -> Reclaimed:
        """Remove evicted rows for good, and fenced ones if asked; see `Store.reclaim`."""
        if (run is None) != (through_step is None):
            raise ValueError("run and through_step go together: give both or neither")
        with self._transaction():
            number = None if run is None else self._numbers.run(run)
            return removal.reclaim(self._connection, number, through_step, fenced)

    def over_budget(
        self, max_rows: int | None = None, max_bytes: int | None = None
    ) -> list[TrajectoryId]:
        """Name the oldest unpinned live rows beyond a budget: candidates for eviction."""
        with translated(self.path):
            return removal.over_budget(self._connection, max_rows, max_bytes)

    def compact(self) -> None:
        """Give the space of removed rows back to the file system (rewrites the file)."""
        with translated(self.path):
            self._connection.execute("VACUUM")

    def get(self, ids: Sequence[TrajectoryId]) -> list[Trajectory]:
        """Read trajectories, in the order asked; damaged ones are quarantined on the spot."""
        try:
            return super().get(ids)
        except CorruptRecord as error:
            self.quarantine(error.ids, "its frame fails its checksum")
            raise

    def quarantine(self, ids: Iterable[str], reason: str) -> None:
        """Keep damaged or incompatible rows from ever being drawn."""
        marks = [Mark(TrajectoryId(id_), Action.QUARANTINE, reason) for id_ in ids]
        self.commit(Batch(marks=marks))

    @contextmanager
    def _transaction(self) -> Iterator[int]:
        """Run statements as one durable transaction; yields its change number."""
        with translated(self.path):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                change = self._next_change()
                yield change
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk or an I/O error may have rolled back already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._numbers.forget()
                raise

    def _next_change(self) -> int:
        self._connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'change'")
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'change'").fetchone()
        return int(row[0])

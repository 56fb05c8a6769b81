"""Writing a SQLite store: one transaction per batch, durable when it returns."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from recollect.errors import (
    CorruptRecord,
    NotAStore,
    StoreDamaged,
    StoreFailed,
    StoreMissing,
    StoreReadOnly,
    StoreTooNew,
)
from recollect.ledger import Mark
from recollect.store.lock import WriterLock, cannot_write
from recollect.store.records import Batch, Fence, Receipt, Reclaimed
from recollect.store.sqlite import insert, removal
from recollect.store.sqlite.connection import check_file, connect_writer, reading, translated
from recollect.store.sqlite.journal import choose_journal
from recollect.store.sqlite.migrations import migrate
from recollect.store.sqlite.numbers import Numbers
from recollect.store.sqlite.reader import SqliteReader
from recollect.trajectory import Trajectory
from recollect.types import Action, RunId, Status, TrajectoryId
from recollect.validation import check_text

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
        self._prepare_place()
        self._lock = WriterLock(self.path)
        try:
            mode = journal or choose_journal(_VERSION, self.path.resolve().parent)
            self._connection = self._connect(mode)
        except (NotAStore, StoreTooNew):
            self._lock.withdraw()
            raise
        except BaseException:
            self._lock.release()
            raise
        self._numbers = Numbers(self._connection, self.path, may_add=True)

    def _prepare_place(self) -> None:
        """Make the folder if need be; refuse, before a lock file is made, what is no store."""
        try:
            check_file(self.path)
        except StoreMissing:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(self.path, error) from error
            return
        # SQLite opens what it may not write for reading; a run should hear of that now.
        if not os.access(self.path, os.W_OK):
            raise StoreReadOnly(self.path)

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = connect_writer(self.path, mode)
        try:
            with reading(self.path):
                migrate(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

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
                    self._connection, self._numbers, self._now(), change, self._compress
                )
                work.write(batch)
                added += work.added
                known += work.known
        return Receipt(added, known, change)

    def fence(self, run: RunId, after_step: int, reason: str) -> Fence:
        """Set aside everything the run wrote for later steps, undoing uses, scores and marks."""
        check_text("fence.reason", reason)
        with reading(self.path), self._transaction() as change:
            number = self._numbers.run(run)
            return removal.fence(
                self._connection, run, number, after_step, reason, self._now(), change
            )

    def reclaim(
        self, run: RunId | None = None, through_step: int | None = None, fenced: bool = False
    ) -> Reclaimed:
        """Remove evicted rows for good, and fenced ones if asked; see `Store.reclaim`."""
        if (run is None) != (through_step is None):
            raise ValueError("run and through_step go together: give both or neither")
        with reading(self.path), self._transaction():
            number = None if run is None else self._numbers.run(run)
            return removal.reclaim(self._connection, number, through_step, fenced)

    def over_budget(
        self, max_rows: int | None = None, max_bytes: int | None = None
    ) -> list[TrajectoryId]:
        """Name the oldest unpinned live rows beyond a budget: candidates for eviction."""
        with reading(self.path):
            return removal.over_budget(self._connection, max_rows, max_bytes)

    def compact(self) -> None:
        """Give the space of removed rows back to the file system (rewrites the file)."""
        self._require_lock()
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
        """Keep damaged or incompatible rows from ever being drawn; those that are stay so."""
        names = [TrajectoryId(id_) for id_ in dict.fromkeys(ids)]
        fresh = [name for name in names if self.row(name).status is not Status.QUARANTINED]
        if fresh:
            marks = [Mark(name, Action.QUARANTINE, reason) for name in fresh]
            self.commit(Batch(marks=marks))

    @contextmanager
    def _transaction(self) -> Iterator[int]:
        """Run statements as one durable transaction; yields its change number."""
        self._require_lock()
        with translated(self.path):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                change = self._next_change()
                yield change
                self._connection.execute("COMMIT")
            except BaseException:
                self._numbers.forget()
                # A full disk or an I/O error may have rolled back already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _require_lock(self) -> None:
        if not self._lock.held:
            raise StoreFailed(self.path, "this handle was closed, or opened by a parent process")

    def _now(self) -> float:
        return float(self._clock())

    def _next_change(self) -> int:
        self._connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'change'")
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'change'").fetchone()
        if row is None:
            raise StoreDamaged(self.path, "its change number is missing")
        return int(row[0])

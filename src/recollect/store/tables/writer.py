"""Writing a store: one transaction per batch, durable when it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from recollect.errors import CorruptRecord, StoreDamaged
from recollect.ledger import Cursor, Draw, Mark, TaskState, Use
from recollect.store.records import Batch, Fence, Receipt, Reclaimed
from recollect.store.tables import copying, insert, removal
from recollect.store.tables.database import Database
from recollect.store.tables.numbers import Numbers
from recollect.store.tables.reader import TableReader
from recollect.trajectory import Trajectory
from recollect.types import Action, RunId, Status, TrajectoryId
from recollect.validation import check_text

T = TypeVar("T")


class TableStore(TableReader):
    """A writer of one store; promises as in `recollect.store.base.Store`.

    What writes SQLite and what writes PostgreSQL add how they connect, and how a transaction is
    kept apart from those of other writers.
    """

    def __init__(self, connection: Database, compress: bool, clock: Callable[[], float]) -> None:
        TableReader.__init__(self, connection)
        self._compress = compress
        self._clock = clock
        self._numbers = Numbers(connection, connection.place, may_add=True)

    def commit(self, batch: Batch) -> Receipt:
        """Write one batch durably."""
        return self.commit_all((batch,))

    def commit_all(self, batches: Iterable[Batch]) -> Receipt:
        """Write many batches in one transaction, holding one at a time in memory."""

        def write(change: int) -> Receipt:
            added = known = 0
            for batch in batches:
                for run in _trained(batch):
                    self._claim(run)
                work = insert.Insertion(
                    self._connection, self._numbers, self._now(), change, self._compress
                )
                work.write(batch)
                added += work.added
                known += work.known
            return Receipt(added, known, change)

        return self._write(write, repeatable=isinstance(batches, Sequence))

    def fence(self, run: RunId, after_step: int, reason: str) -> Fence:
        """Set aside everything the run wrote for later steps, undoing uses, scores and marks."""
        check_text("fence.reason", reason)

        def write(change: int) -> Fence:
            number = self._numbers.run(run)
            self._claim(run)
            return removal.fence(
                self._connection, run, number, after_step, reason, self._now(), change
            )

        with self._connection.reading():
            return self._write(write)

    def reclaim(
        self, run: RunId | None = None, through_step: int | None = None, fenced: bool = False
    ) -> Reclaimed:
        """Remove evicted rows for good, and fenced ones if asked; see `Store.reclaim`."""
        if (run is None) != (through_step is None):
            raise ValueError("run and through_step go together: give both or neither")

        def write(_: int) -> Reclaimed:
            number = None if run is None else self._numbers.run(run)
            return removal.reclaim(self._connection, number, through_step, fenced)

        with self._connection.reading():
            return self._write(write)

    def take_over(self, source: TableReader) -> Mapping[str, copying.TableSum]:
        """Copy every row of another store, as of one moment, into this one, which is empty."""
        connection = source._connection

        def write(_: int) -> Mapping[str, copying.TableSum]:
            with connection.moment():
                return copying.copy_tables(connection, self._connection)

        with self._connection.reading(), connection.reading():
            return self._write(write)

    def is_empty(self) -> bool:
        """Tell whether nothing is stored."""
        with self._connection.reading():
            return copying.is_empty(self._connection)

    def sums(self) -> Mapping[str, copying.TableSum]:
        """Add up all rows of all tables, as of one moment, to compare them with those of a copy."""
        with self._connection.reading(), self._connection.moment():
            return copying.sum_tables(self._connection)

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

    def _claim(self, run: RunId) -> None:
        """Become the one who trains a run. Where a store has one writer, that is this one."""

    def _write(self, work: Callable[[int], T], repeatable: bool = True) -> T:
        """Do work as one durable transaction, giving it its change number.

        `repeatable` says that the work may be done again from the start, if that is needed.
        """
        with self._connection.translated():
            try:
                self._connection.begin()
                result = work(self._next_change())
                self._connection.commit()
            except BaseException:
                self._numbers.forget()
                self._connection.rollback()
                raise
        return result

    def _now(self) -> float:
        return float(self._clock())

    def _next_change(self) -> int:
        self._connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'change'")
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'change'").fetchone()
        if row is None:
            raise StoreDamaged(self.path, "its change number is missing")
        return int(row[0])


def _trained(batch: Batch) -> dict[RunId, None]:
    """Name the runs in which the batch takes a step, which only their trainers do."""
    steps: list[Cursor | Draw | Use | TaskState] = [*batch.cursors, *batch.draws, *batch.uses]
    steps += batch.task_states
    return dict.fromkeys(record.run for record in steps)

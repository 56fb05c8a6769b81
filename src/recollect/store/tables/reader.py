"""Reading a store. Nothing here can write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from recollect.errors import AmbiguousId, CorruptFrame, CorruptRecord, StoreDamaged, UnknownId
from recollect.ledger import (
    Cursor,
    Draw,
    Event,
    Group,
    Mark,
    Note,
    NoteLink,
    Run,
    Score,
    TaskState,
    Use,
)
from recollect.note_ledger import Distillation, NoteMark, NoteTrial
from recollect.store import codec
from recollect.store.address import Place
from recollect.store.records import Changes, NoteVersion, Page, Provenance, Query, Row
from recollect.store.tables import columns, ledger, note_reading, rows
from recollect.store.tables.database import Database
from recollect.trajectory import Trajectory
from recollect.types import NoteId, RunId, Task, TaskKey, TrajectoryId

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class TableReader:
    """A reader of one store; promises as in `recollect.store.base.StoreReader`.

    What reads SQLite and what reads PostgreSQL add how they connect, and `stats`, `sql` and
    `verify`, which are about what holds the tables, too.
    """

    def __init__(self, connection: Database) -> None:
        self._connection = connection

    @property
    def path(self) -> Place:
        """Where the store is."""
        return self._connection.place

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release files, connections and locks. Closing twice is fine."""
        self._connection.close()

    # -- trajectories ---------------------------------------------------------------------

    def get(self, ids: Sequence[TrajectoryId]) -> list[Trajectory]:
        """Read trajectories, in the order asked. UnknownId or CorruptRecord name the culprits."""
        return self._read_frames(ids, _decoded)

    def frames(self, ids: Sequence[TrajectoryId]) -> list[bytes]:
        """Read stored frames as bytes, checksum verified, in the order asked."""
        return self._read_frames(ids, _checked)

    def _read_frames(self, ids: Sequence[TrajectoryId], read: Callable[[str, bytes], T]) -> list[T]:
        found: dict[str, T] = {}
        corrupt: dict[str, str] = {}
        for chunk in rows.chunks(ids):
            for id_, frame in self._stored_frames(chunk):
                try:
                    found[id_] = read(id_, frame)
                except CorruptFrame as error:
                    corrupt[id_] = error.problem
        if corrupt:
            raise CorruptRecord(self.path, list(corrupt), next(iter(corrupt.values())))
        for id_ in ids:
            if id_ not in found:
                raise UnknownId(self.path, "trajectory", id_)
        return [found[id_] for id_ in ids]

    def _stored_frames(self, ids: Sequence[str]) -> list[tuple[str, bytes]]:
        """Read frames as they are; empty where a row's frame is missing or out of reach."""
        query = (
            "SELECT t.id, p.frame FROM trajectories t "
            "LEFT JOIN payloads p ON p.seq = t.seq "
            f"WHERE t.fence = 0 AND t.id IN ({rows.marks(len(ids))})"
        )
        try:
            return [(id_, frame or b"") for id_, frame in self._all(query, ids)]
        except StoreDamaged:
            # One damaged page must not hide the frames on all the others.
            if len(ids) > 1:
                return [pair for id_ in ids for pair in self._stored_frames([id_])]
            known = self._all("SELECT id FROM trajectories WHERE fence = 0 AND id = ?", ids)
            return [(row[0], b"") for row in known]

    def rows(
        self, query: Query, after: int | None = None, limit: int = 100, newest_first: bool = False
    ) -> Page:
        """List metadata in order of arrival; pass `Page.next` as `after` for the next page."""
        if limit < 1:
            raise ValueError(f"limit is {limit}: a page has at least one row")
        clause, values = rows.where(query, self._connection.EACH)
        if after is not None:
            clause += f" AND t.seq {'<' if newest_first else '>'} ?"
            values.append(after)
        order = "DESC" if newest_first else "ASC"
        sql = f"{rows.SELECT_ROW}{clause} ORDER BY t.seq {order} LIMIT ?"
        with self._connection.reading():
            found = self._connection.execute(sql, [*values, limit + 1]).fetchall()
            listed = tuple(rows.to_row(values) for values in found[:limit])
        return Page(listed, listed[-1].seq if len(found) > limit else None)

    def row(self, trajectory: TrajectoryId) -> Row:
        """Return the metadata of one trajectory, whatever its status."""
        page = self.rows(Query(ids=[trajectory], status=None), limit=1)
        if not page.rows:
            raise UnknownId(self.path, "trajectory", trajectory)
        return page.rows[0]

    def count(self, query: Query) -> int:
        """Count the rows that match."""
        clause, values = rows.where(query, self._connection.EACH)
        return int(self._one(rows.COUNT_ROWS + clause, values)[0])

    def resolve(self, prefix: str) -> TrajectoryId:
        """Complete a shortened trajectory id; UnknownId or AmbiguousId if that fails."""
        sql = "SELECT id FROM trajectories WHERE fence = 0 AND id >= ? AND id < ? ORDER BY id"
        # Ids are ASCII, so every id that begins with the prefix sorts below prefix + U+10FFFF.
        found = [row[0] for row in self._all(sql + " LIMIT 4", [prefix, prefix + "\U0010ffff"])]
        if not found or not prefix:
            raise UnknownId(self.path, "trajectory", prefix)
        if prefix in found or len(found) == 1:
            return TrajectoryId(prefix if prefix in found else found[0])
        raise AmbiguousId(self.path, "trajectory", prefix, found[:3])

    def ids_of(self, seqs: Sequence[int]) -> list[TrajectoryId]:
        """Name rows of the pool index by their trajectory ids, in the order asked."""
        named: dict[int, str] = {}
        for chunk in rows.chunks([int(seq) for seq in seqs]):
            sql = f"SELECT seq, id FROM trajectories WHERE seq IN ({rows.marks(len(chunk))})"
            named.update(self._all(sql, chunk))
        for seq in seqs:
            if int(seq) not in named:
                raise UnknownId(self.path, "row", str(seq), "Refresh the pool index, then retry.")
        return [TrajectoryId(named[int(seq)]) for seq in seqs]

    def changes(self, since: int | None, run: RunId | None = None) -> Changes:
        """Tell a pool index what happened since the change number it last saw."""
        return columns.changes(self._connection, self.path, since, run)

    # -- what belongs to tasks, runs and steps ----------------------------------------------

    def task(self, key: TaskKey) -> Task:
        """Return a task; UnknownId if it is not stored."""
        with self._connection.reading():
            found = ledger.tasks(self._all, "WHERE key = ?", [key])
        if not found:
            raise UnknownId(self.path, "task", key)
        return next(iter(found.values()))

    def tasks(self, after: int = 0) -> dict[int, Task]:
        """Tasks by the small number that `PACK` uses for them: those with a larger one."""
        with self._connection.reading():
            return ledger.tasks(self._all, "WHERE number > ?", (after,))

    def runs(self) -> dict[int, Run]:
        """All runs by the small number that `PACK` uses for them."""
        with self._connection.reading():
            return ledger.runs(self._all)

    def provenances(self) -> dict[int, Provenance]:
        """All fingerprint triples by the small number that `PACK` uses for them."""
        with self._connection.reading():
            return ledger.provenances(self._all)

    def groups(self, run: RunId, step: int) -> list[Group]:
        """The groups of one step."""
        with self._connection.reading():
            return ledger.groups(self._all, run, step)

    def task_states(self, run: RunId) -> list[TaskState]:
        """The newest state of every task the run has seen."""
        with self._connection.reading():
            return ledger.task_states(self._all, run)

    def draws(
        self,
        run: RunId | None = None,
        step: int | None = None,
        trajectory: TrajectoryId | None = None,
    ) -> list[Draw]:
        """Draws in order, of a run, a step, a trajectory, or any combination."""
        with self._connection.reading():
            return ledger.draws(self._all, run, step, trajectory)

    def uses(
        self,
        run: RunId | None = None,
        step: int | None = None,
        trajectory: TrajectoryId | None = None,
    ) -> list[Use]:
        """Uses in order, of a run, a step, a trajectory, or any combination."""
        with self._connection.reading():
            return ledger.uses(self._all, run, step, trajectory)

    def scores(
        self,
        run: RunId | None = None,
        step: int | None = None,
        trajectory: TrajectoryId | None = None,
    ) -> list[Score]:
        """Scores in order, of a run, a step, a trajectory, or any combination."""
        with self._connection.reading():
            return ledger.scores(self._all, run, step, trajectory)

    def marks(self, trajectory: TrajectoryId) -> list[Mark]:
        """What happened to a row after it was written, oldest first."""
        with self._connection.reading():
            return ledger.marks(self._all, trajectory)

    def note(self, note: NoteId) -> Note:
        """Return a note; UnknownId if it is not stored."""
        with self._connection.reading():
            found = ledger.notes(self._all, note=note)
        if not found:
            raise UnknownId(self.path, "note", note, note_reading.LIST_NOTES)
        return found[0]

    def notes(self, workspace: str | None = None) -> list[Note]:
        """All notes, oldest first."""
        with self._connection.reading():
            return ledger.notes(self._all, workspace=workspace)

    def links(
        self, note: NoteId | None = None, trajectory: TrajectoryId | None = None
    ) -> list[NoteLink]:
        """Which notes and trajectories belong together."""
        with self._connection.reading():
            return ledger.links(self._all, note, trajectory)

    def note_marks(self, note: NoteId | None = None) -> list[NoteMark]:
        """What happened to a note, or to all of them, oldest first."""
        with self._connection.reading():
            return note_reading.note_marks(self._all, note)

    def note_trials(self, note: NoteId | None = None) -> list[NoteTrial]:
        """What a note did, or all of them, group by group, oldest first."""
        with self._connection.reading():
            return note_reading.note_trials(self._all, note)

    def distillation(self, key: str) -> Distillation | None:
        """What a distiller answered to a question; None if it was not asked yet."""
        with self._connection.reading():
            return note_reading.distillation(self._all, key)

    def note_version(self) -> NoteVersion:
        """How far notes and their marks have come: cheap, to see whether to read them again."""
        with self._connection.reading():
            return note_reading.note_version(self._connection.given())

    def events(self, run: RunId, step: int | None = None) -> list[Event]:
        """Events of a run in the order they were committed."""
        with self._connection.reading():
            return ledger.events(self._all, run, step)

    def newest_version(self, run: RunId) -> int | None:
        """The policy version that sampled a run's latest rows, also if they left the pool since."""
        with self._connection.reading():
            return ledger.newest_version(self._all, run)

    def cursor(self, run: RunId) -> Cursor | None:
        """The run's newest recorded position, None if it has none."""
        with self._connection.reading():
            return ledger.cursor(self._all, run)

    def _all(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._connection.reading():
            return self._connection.execute(sql, values).fetchall()

    def _one(self, sql: str, values: Sequence[object] = ()) -> tuple[Any, ...]:
        with self._connection.reading():
            row: tuple[Any, ...] = self._connection.execute(sql, values).fetchone()
        return row


def _decoded(id_: str, frame: bytes) -> Trajectory:
    trajectory = codec.decode(frame)
    if trajectory.id != id_:
        raise CorruptFrame(f"it is the frame of {trajectory.id}")
    return trajectory


def _checked(id_: str, frame: bytes) -> bytes:
    codec.check(frame)
    if not codec.belongs(frame, id_):
        raise CorruptFrame("it is the frame of another trajectory")
    return frame

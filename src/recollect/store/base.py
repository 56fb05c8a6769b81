"""What a store promises, whatever holds the bytes.

A store keeps trajectories, what was decided about them and what became of them. It knows
bytes, ids and steps; it does not know what learning is. `Store` is the seam: SQLite and
PostgreSQL stand behind it, both through the same conformance suite (tests/store/conformance.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

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
from recollect.store.address import Place
from recollect.store.records import (
    Batch,
    Changes,
    Fence,
    Finding,
    NoteVersion,
    Page,
    Provenance,
    Query,
    Receipt,
    Reclaimed,
    Row,
    Stats,
)
from recollect.trajectory import Trajectory
from recollect.types import NoteId, RunId, Task, TaskKey, TrajectoryId

if TYPE_CHECKING:
    from typing_extensions import Self


class StoreReader(Protocol):
    """Reading: any number of readers, in any process, while others write.

    A reader sees whole transactions only. Every method raises a subclass of StoreError for
    what can go wrong and returns typed records otherwise; fenced rows are invisible unless
    asked for.
    """

    @property
    def path(self) -> Place:
        """Where the store is: a file, or an address."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def get(self, ids: Sequence[TrajectoryId]) -> list[Trajectory]:
        """Read trajectories, in the order asked. UnknownId or CorruptRecord name the culprits."""

    def frames(self, ids: Sequence[TrajectoryId]) -> list[bytes]:
        """Read stored frames as bytes, checksum verified, in the order asked."""

    def rows(
        self, query: Query, after: int | None = None, limit: int = 100, newest_first: bool = False
    ) -> Page:
        """List metadata in order of arrival; pass `Page.next` as `after` for the next page."""

    def row(self, trajectory: TrajectoryId) -> Row:
        """Return the metadata of one trajectory, whatever its status; UnknownId if it is not."""

    def count(self, query: Query) -> int:
        """Count the rows that match."""

    def resolve(self, prefix: str) -> TrajectoryId:
        """Complete a shortened trajectory id; UnknownId or AmbiguousId if that fails."""

    def ids_of(self, seqs: Sequence[int]) -> list[TrajectoryId]:
        """Name rows of the pool index by their trajectory ids, in the order asked."""

    def changes(self, since: int | None, run: RunId | None = None) -> Changes:
        """Tell a pool index what happened since the change number it last saw.

        `last_use` is that of the run that began last among those that used a row; with a `run`,
        its own.
        """

    def task(self, key: TaskKey) -> Task:
        """Return a task; UnknownId if it is not stored."""

    def tasks(self, after: int = 0) -> dict[int, Task]:
        """Tasks by the small number that `PACK` uses for them: those with a larger one.

        Numbers only grow and tasks stay as they are, so a follower asks for what is new.
        """

    def runs(self) -> dict[int, Run]:
        """All runs by the small number that `PACK` uses for them."""

    def provenances(self) -> dict[int, Provenance]:
        """All fingerprint triples by the small number that `PACK` uses for them."""

    def groups(self, run: RunId, step: int) -> list[Group]:
        """The groups of one step."""

    def task_states(self, run: RunId) -> list[TaskState]:
        """The newest state of every task the run has seen."""

    def draws(
        self,
        run: RunId | None = None,
        step: int | None = None,
        trajectory: TrajectoryId | None = None,
    ) -> list[Draw]:
        """Draws in order, of a run, a step, a trajectory, or any combination."""

    def uses(
        self,
        run: RunId | None = None,
        step: int | None = None,
        trajectory: TrajectoryId | None = None,
    ) -> list[Use]:
        """Uses in order, of a run, a step, a trajectory, or any combination."""

    def scores(
        self,
        run: RunId | None = None,
        step: int | None = None,
        trajectory: TrajectoryId | None = None,
    ) -> list[Score]:
        """Scores in order, of a run, a step, a trajectory, or any combination."""

    def marks(self, trajectory: TrajectoryId) -> list[Mark]:
        """What happened to a row after it was written, oldest first."""

    def note(self, note: NoteId) -> Note:
        """Return a note; UnknownId if it is not stored."""

    def notes(self, workspace: str | None = None) -> list[Note]:
        """All notes, oldest first."""

    def links(
        self, note: NoteId | None = None, trajectory: TrajectoryId | None = None
    ) -> list[NoteLink]:
        """Which notes and trajectories belong together."""

    def note_marks(self, note: NoteId | None = None) -> list[NoteMark]:
        """What happened to a note, or to all of them, oldest first."""

    def note_trials(self, note: NoteId | None = None) -> list[NoteTrial]:
        """What a note did, or all of them, group by group, oldest first."""

    def distillation(self, key: str) -> Distillation | None:
        """What a distiller answered to a question; None if it was not asked yet."""

    def note_version(self) -> NoteVersion:
        """How far notes and their marks have come: cheap, to see whether to read them again."""

    def events(self, run: RunId, step: int | None = None) -> list[Event]:
        """Events of a run in the order they were committed."""

    def newest_version(self, run: RunId) -> int | None:
        """The policy version that sampled a run's latest rows, also if they left the pool since.

        None where no policy of it sampled any.
        """

    def cursor(self, run: RunId) -> Cursor | None:
        """The run's newest recorded position, None if it has none."""

    def stats(self) -> Stats:
        """Totals."""

    def sql(self, query: str, limit: int = ...) -> tuple[list[str], list[tuple[object, ...]]]:
        """Run one read-only query of a person; BadQuery if it is malformed or would write."""

    def verify(self) -> Iterator[Finding]:
        """Check every checksum and every derived value; yields nothing when all is well."""

    def close(self) -> None:
        """Release files, connections and locks. Closing twice is fine."""


class Store(StoreReader, Protocol):
    """Writing. A SQLite store has one live writer, enforced; a PostgreSQL store has any number.

    - **Durable**: when `commit` returns, the batch survives kill -9, and power loss on a disk
      that honours flushes.
    - **Atomic**: a batch is visible whole or not at all.
    - **Idempotent**: committing the same batch again changes nothing; the same key with other
      content is refused (StoreConflict), and nothing of that batch is written. Marks, of rows
      or notes, and trials of notes that name no run are a person's: they count each time they
      are sent.
    - **Fenced**: `fence` makes the store equal, to every reader, to one in which the steps
      after the fence were never written. They can then be committed again under the same ids.
    - **Undisturbed**: a run's draws, uses, scores and marks of rows that somebody fenced, or
      removed for good, since it drew them are accepted (marks of removed rows are dropped).
    - **One trainer per run**: who fences a run, or commits draws, uses, task states or a cursor
      of it, owns it until it closes the store; to others those are StoreLocked. Anybody may add
      trajectories. (With one writer per store that is no question.)
    """

    def commit(self, batch: Batch) -> Receipt:
        """Write one batch durably."""

    def commit_all(self, batches: Iterable[Batch]) -> Receipt:
        """Write many batches in one transaction, holding one at a time in memory."""

    def fence(self, run: RunId, after_step: int, reason: str) -> Fence:
        """Set aside everything the run wrote for later steps, undoing uses, scores and marks."""

    def reclaim(
        self, run: RunId | None = ..., through_step: int | None = ..., fenced: bool = ...
    ) -> Reclaimed:
        """Remove evicted rows for good.

        With a run: those it evicted at or before `through_step`, which must be a step that
        no resume will go back beyond. Without: all evicted rows. `fenced` also removes
        fenced rows. Pinned rows stay.
        """

    def quarantine(self, ids: Iterable[str], reason: str) -> None:
        """Keep damaged or incompatible rows from ever being drawn; those that are stay so."""

    def compact(self) -> None:
        """Give the space of removed rows back to the file system (rewrites the store)."""

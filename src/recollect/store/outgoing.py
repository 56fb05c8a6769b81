"""What an export is made of: rows with everything they refer to, read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from recollect.errors import CorruptFrame, CorruptRecord, UnknownId
from recollect.ledger import Note, NoteLink, Run
from recollect.store import codec
from recollect.store.base import StoreReader
from recollect.store.records import Page, Row
from recollect.trajectory import Trajectory
from recollect.types import LinkKind, NoteId, RunId, Task, TaskKey, TrajectoryId

_PAGE = 200
_BLOCK_BYTES = 8 * 2**20
_REMEMBERED = 1000
_NAMED = 100

# Lists a page of rows in order of arrival, given where it begins and how many rows it has.
Listing: TypeAlias = Callable[[int | None, int], Page]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A stored row that could not be exported, and why."""

    id: TrajectoryId
    reason: str


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One row and the records it refers to.

    `runs` begins with the row's own; `links` are those that importing the row would not make
    by itself.
    """

    trajectory: Trajectory
    task: Task
    runs: tuple[Run, ...]
    notes: tuple[Note, ...] = ()
    links: tuple[NoteLink, ...] = ()


class OutgoingRows:
    """Iterates over the rows of a listing; counts them, and names those it had to skip.

    Every page and every block of frames is a short transaction of its own, so a writer is
    never held up, and at most a block of frames is in memory.
    """

    def __init__(self, reader: StoreReader, listing: Listing, with_notes: bool) -> None:
        self._reader = reader
        self._listing = listing
        self._with_notes = with_notes
        self._runs: dict[RunId, Run] = {}
        self._tasks: dict[TaskKey, Task] = {}
        self._notes: dict[NoteId, Note | None] = {}
        self.count = 0
        self.skipped: list[Skipped] = []
        self.skipped_total = 0

    def __iter__(self) -> Iterator[Outgoing]:
        page = self._listing(None, _PAGE)
        while True:
            for block in _blocks(page.rows):
                yield from self._read(block)
            if page.next is None:
                return
            page = self._listing(page.next, _PAGE)

    def _read(self, block: Sequence[Row]) -> Iterator[Outgoing]:
        for id_, frame in self._frames([row.id for row in block]).items():
            try:
                trajectory = codec.decode(frame)
                if trajectory.id != id_:
                    raise CorruptFrame(f"it belongs to {trajectory.id}")
                outgoing = self._with_references(trajectory)
            except CorruptFrame as error:
                self._skip(id_, error.problem)
            except UnknownId as error:
                self._skip(id_, f"refers to what is not stored: {error.given}")
            else:
                self.count += 1
                yield outgoing

    def _frames(self, ids: list[TrajectoryId]) -> dict[TrajectoryId, bytes]:
        """Read frames; the damaged and those that vanished meanwhile are skipped by name."""
        while ids:
            try:
                return dict(zip(ids, self._reader.frames(ids), strict=True))
            except CorruptRecord as error:
                lost, reason = set(error.ids), "its stored bytes fail their checksum"
            except UnknownId as error:
                lost, reason = {error.given}, "was removed while the export ran"
            for id_ in ids:
                if id_ in lost:
                    self._skip(id_, reason)
            left = [id_ for id_ in ids if id_ not in lost]
            assert len(left) < len(ids), "a reader names culprits among the ids it was asked for"
            ids = left
        return {}

    def _skip(self, id_: TrajectoryId, reason: str) -> None:
        self.skipped_total += 1
        if len(self.skipped) < _NAMED:
            self.skipped.append(Skipped(id_, reason))

    def _with_references(self, t: Trajectory) -> Outgoing:
        task = _remember(self._tasks, t.task, self._reader.task)
        if not self._with_notes:
            return Outgoing(t, task, (self._run(t.run),))
        own = {NoteLink(s.note, t.id, LinkKind.GUIDED, t.run, t.step) for s in t.notes}
        links = [link for link in self._reader.links(trajectory=t.id) if link not in own]
        links.sort(key=lambda link: (link.note, link.kind.value))
        ids = dict.fromkeys([span.note for span in t.notes] + [link.note for link in links])
        found = [_remember(self._notes, id_, self._find_note) for id_ in ids]
        notes = tuple(note for note in found if note is not None)
        named = [t.run, *(note.run for note in notes), *(link.run for link in links)]
        runs = tuple(self._run(run) for run in dict.fromkeys(named) if run is not None)
        return Outgoing(t, task, runs, notes, tuple(links))

    def _find_note(self, id_: NoteId) -> Note | None:
        """A row may name a note that was fenced or never stored; its text is then in the row."""
        try:
            return self._reader.note(id_)
        except UnknownId:
            return None

    def _run(self, id_: RunId) -> Run:
        if id_ not in self._runs:
            self._runs = {run.id: run for run in self._reader.runs().values()}
        if id_ not in self._runs:
            raise UnknownId(self._reader.path, "run", id_)
        return self._runs[id_]


def _remember(known: dict[K, V], key: K, find: Callable[[K], V]) -> V:
    """Look a value up once, and again only after many others."""
    if key not in known:
        if len(known) >= _REMEMBERED:
            known.clear()
        known[key] = find(key)
    return known[key]


def _blocks(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Cut a page so that the frames of a block fit in memory together."""
    block: list[Row] = []
    size = 0
    for row in rows:
        if block and size + row.bytes > _BLOCK_BYTES:
            yield block
            block, size = [], 0
        block.append(row)
        size += row.bytes
    if block:
        yield block

"""Deciding, line by line, which records of a file may enter a store.

A commit refuses its whole transaction where a key is stored with other content. An import
wants to lose one line instead, so the question is asked first: of the store, and of what the
file itself brought before, of which only fingerprints are kept (about 120 bytes a record).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from recollect.canonical import canonical_json
from recollect.errors import CorruptFrame, CorruptRecord, InvalidRecord, UnknownId
from recollect.ledger import Note, NoteLink, Run
from recollect.store import codec, plain
from recollect.store.base import StoreReader
from recollect.store.incoming import BadLine, Incoming, bad_line
from recollect.store.records import Batch, Query
from recollect.trajectory import Trajectory
from recollect.types import LinkKind, NoteId, RunId, Task, TaskKey, TrajectoryId

# Looks a key up in the store: the content found there, to be compared; None if there is none.
Find = Callable[[str], "bytes | None"]


@dataclass(slots=True)
class Admitted:
    """What may enter, of one line or of a block of lines; what was known; what was refused.

    `marks` are the fingerprints of all of it, by key.
    """

    runs: list[Run] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    trajectories: list[Trajectory] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    links: list[NoteLink] = field(default_factory=list)
    marks: dict[int, int] = field(default_factory=dict)
    known: int = 0
    good: int = 0
    bad: list[BadLine] = field(default_factory=list)

    def add(self, line: Admitted) -> None:
        """Take over what one good line brought."""
        for name in ("runs", "tasks", "trajectories", "notes", "links"):
            getattr(self, name).extend(getattr(line, name))
        self.known += line.known
        self.good += 1

    def batch(self) -> Batch | None:
        """Return what there is to commit, None if there is nothing."""
        parts = (self.runs, self.tasks, self.trajectories, self.notes, self.links)
        if not any(parts):
            return None
        return Batch(
            runs=self.runs,
            tasks=self.tasks,
            trajectories=self.trajectories,
            notes=self.notes,
            links=self.links,
        )


class Admission:
    """The judge of one import. Reads the store; never writes it."""

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._seen: dict[int, int] = {}
        self._present: set[int] = set()  # what the file refers to and the store was found to have
        self._refused: dict[int, int] = {}  # runs and tasks that differ from the store: their line
        self._runs: dict[str, bytes] | None = None

    def consider(self, block: Sequence[Incoming]) -> Admitted:
        """Judge lines in order. Each enters whole or becomes a bad line."""
        admitted = Admitted()
        ids = [t.id for incoming in block for t in incoming.trajectories]
        rows = self._store.rows(Query(ids=ids, status=None), None, len(ids)).rows if ids else ()
        stored = {row.id for row in rows}
        for incoming in block:
            line = Admitted()
            try:
                self._consider_line(incoming, line, stored)
            except InvalidRecord as error:
                admitted.bad.append(bad_line(incoming.line, error))
            else:
                self._seen |= line.marks
                admitted.add(line)
        return admitted

    def _consider_line(self, incoming: Incoming, line: Admitted, stored: set[TrajectoryId]) -> None:
        number = incoming.line
        for run in incoming.runs:
            if self._is_new(line, number, "run", run.id, _of_run(run), self._find_run):
                line.runs.append(run)
        for task in incoming.tasks:
            if self._is_new(line, number, "task", task.key, _of_task(task), self._find_task):
                line.tasks.append(task)
        if incoming.default_run is not None:
            self._add_default_run(line, incoming.default_run)
        for trajectory in incoming.trajectories:
            self._consider_trajectory(line, number, trajectory, stored)
        for note in incoming.notes:
            self._require_run(line, note.run)
            if self._is_new(line, number, "note", note.id, _of_note(note), self._find_note):
                line.notes.append(note)
        for link in incoming.links:
            self._require(line, "trajectory", link.trajectory, self._find_trajectory)
            self._require_run(line, link.run)
            if self._is_new_link(line, number, link):
                line.links.append(link)

    def _consider_trajectory(
        self, line: Admitted, number: int, t: Trajectory, stored: set[TrajectoryId]
    ) -> None:
        self._require_run(line, t.run)
        self._require(line, "task", t.task, self._find_task)
        find = self._find_trajectory if t.id in stored else _find_nothing
        if not self._is_new(line, number, "trajectory", t.id, codec.encode(t), find):
            line.known += 1
            return
        for span in t.notes:  # the store makes these links by itself
            link = NoteLink(span.note, t.id, LinkKind.GUIDED, t.run, t.step)
            self._is_new_link(line, number, link)
        line.trajectories.append(t)

    # -- the questions ----------------------------------------------------------------------

    def _is_new(
        self, line: Admitted, number: int, kind: str, key: str, content: bytes, find: Find
    ) -> bool:
        """Tell new from known; InvalidRecord where the key is taken by other content."""
        mark, fingerprint = _hash(f"{kind} {key}".encode()), _hash(content)
        earlier = line.marks.get(mark, self._seen.get(mark))
        if earlier is not None:
            if earlier != fingerprint:
                raise _taken(kind, key, "is earlier in this file")
            return False
        found = find(key)
        if found is not None and found != content:
            if kind in ("run", "task"):
                self._refused[mark] = number
            raise _taken(kind, key, "is already stored")
        line.marks[mark] = fingerprint
        return found is None

    def _is_new_link(self, line: Admitted, number: int, link: NoteLink) -> bool:
        key = canonical_json([link.note, link.trajectory, link.kind.value])
        return self._is_new(
            line, number, "link", key, _of_link(link), lambda _: self._find_link(link)
        )

    def _require(self, line: Admitted, kind: str, key: str, find: Find) -> None:
        """Refuse a reference to what neither the file brought before nor the store has."""
        mark = _hash(f"{kind} {key}".encode())
        if mark in line.marks or mark in self._seen or mark in self._present:
            return
        if mark in self._refused:
            raise InvalidRecord(kind, f"{key} was refused on line {self._refused[mark]}")
        if find(key) is None:
            raise InvalidRecord(kind, f"{key} is neither in the store nor earlier in this file")
        self._present.add(mark)

    def _require_run(self, line: Admitted, run: RunId | None) -> None:
        if run is not None:
            self._require(line, "run", run, self._find_run)

    def _add_default_run(self, line: Admitted, run: Run) -> None:
        mark = _hash(f"run {run.id}".encode())
        if mark not in self._seen and self._find_run(run.id) is None:
            line.marks[mark] = _hash(_of_run(run))
            line.runs.append(run)

    # -- what the store has, as bytes to compare --------------------------------------------

    def _find_run(self, key: str) -> bytes | None:
        if self._runs is None:
            self._runs = {run.id: _of_run(run) for run in self._store.runs().values()}
        return self._runs.get(key)

    def _find_task(self, key: str) -> bytes | None:
        try:
            return _of_task(self._store.task(TaskKey(key)))
        except UnknownId:
            return None

    def _find_note(self, key: str) -> bytes | None:
        try:
            return _of_note(self._store.note(NoteId(key)))
        except UnknownId:
            return None

    def _find_link(self, link: NoteLink) -> bytes | None:
        for found in self._store.links(link.note, link.trajectory):
            if found.kind is link.kind:
                return _of_link(found)
        return None

    def _find_trajectory(self, key: str) -> bytes | None:
        try:
            (frame,) = self._store.frames([TrajectoryId(key)])
            return codec.encode(codec.decode(frame))
        except UnknownId:
            return None
        except (CorruptRecord, CorruptFrame):
            problem = f"trajectory {key} is already stored, but its bytes are damaged"
            raise InvalidRecord("id", problem) from None


def _find_nothing(key: str) -> bytes | None:
    return None


def _taken(kind: str, key: str, where: str) -> InvalidRecord:
    problem = f"{kind} {key} {where} with different content"
    return InvalidRecord("id" if kind in ("trajectory", "note") else kind, problem)


def _hash(content: bytes) -> int:
    """Fingerprint content in 64 bits.

    A record counts as known only where key and content both agree, 128 bits; two keys that
    collide by chance (one in 10^7 for a million records) make a bad line, not a silent loss.
    """
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _of_run(run: Run) -> bytes:
    return canonical_json(plain.run_to_plain(run)).encode("utf-8")


def _of_task(task: Task) -> bytes:
    return canonical_json(plain.task_to_plain(task)).encode("utf-8")


def _of_note(note: Note) -> bytes:
    return canonical_json(plain.note_to_plain(note)).encode("utf-8")


def _of_link(link: NoteLink) -> bytes:
    return canonical_json(plain.link_to_plain(link)).encode("utf-8")

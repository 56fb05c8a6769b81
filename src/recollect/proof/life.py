"""The life of a store as a list of operations, and what must be true after each of them.

`Truth` knows nothing of SQLite: it is what a store has promised, kept in plain lists. The fault
tests do the operations in a process that dies, and compare what is left with the truth.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from recollect.ledger import Cursor, Draw, Event, Mark, Note, Run, Score, Use
from recollect.proof.fake_run import FakeRun
from recollect.store.base import Store, StoreReader
from recollect.store.records import Batch, Query
from recollect.trajectory import Trajectory
from recollect.types import Action, RunId, Status, Task, TrajectoryId

RUN = RunId("life")
_OF_A_STEP = ("draws", "uses", "scores", "marks", "notes", "events", "cursors")
_STATUS = {
    Action.EVICT: Status.EVICTED,
    Action.BAN: Status.BANNED,
    Action.QUARANTINE: Status.QUARANTINED,
}
_UNDOES = {
    Status.BANNED: Action.UNBAN,
    Status.QUARANTINED: Action.RELEASE,
    Status.EVICTED: Action.RELEASE,
}


@dataclass(frozen=True)
class Operation:
    """One thing that is done to a store: batches in one transaction, a fence, a reclaim, ..."""

    kind: str
    batches: tuple[Batch, ...] = ()
    after: int = 0

    def do(self, store: Store) -> None:
        """Do it; when this returns, it has been acknowledged."""
        if self.kind == "commit":
            store.commit_all(self.batches)
        elif self.kind == "fence":
            store.fence(RUN, self.after, "resume")
        elif self.kind == "reclaim":
            store.reclaim(None, None, fenced=True)


@dataclass
class Truth:
    """What every reader must see. Rows that are fenced or reclaimed are simply not here."""

    runs: list[Run] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    rows: list[Trajectory] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)

    def after(self, operations: Iterable[Operation]) -> Truth:
        """What is true once these operations are done; this truth stays as it is."""
        truth = Truth(**{name: list(getattr(self, name)) for name in self.__dataclass_fields__})
        for operation in operations:
            truth._apply(operation)
        return truth

    def _apply(self, operation: Operation) -> None:
        if operation.kind == "commit":
            for batch in operation.batches:
                self._add(batch)
        elif operation.kind == "fence":
            for name in ("rows", *_OF_A_STEP):
                kept = [item for item in getattr(self, name) if item.step <= operation.after]
                setattr(self, name, kept)
        elif operation.kind == "reclaim":
            gone = {row.id for row in self.rows if self.state(row.id) == (Status.EVICTED, False)}
            self.rows = [row for row in self.rows if row.id not in gone]
            self.marks = [mark for mark in self.marks if mark.trajectory not in gone]

    def _add(self, batch: Batch) -> None:
        self.rows += batch.trajectories
        for name in ("runs", "tasks", *_OF_A_STEP):
            getattr(self, name).extend(getattr(batch, name))

    def state(self, id_: TrajectoryId) -> tuple[Status, bool]:
        """Replay the marks on a row: the last word on status and on pinning counts.

        What undoes the last word makes the one before it count again.
        """
        words, pinned = [Status.LIVE], False
        for mark in self.marks:
            if mark.trajectory != id_:
                continue
            if mark.action in _STATUS and _STATUS[mark.action] is not words[-1]:
                words.append(_STATUS[mark.action])
            elif mark.action is _UNDOES.get(words[-1]):
                words.pop()
            elif mark.action in (Action.PIN, Action.UNPIN):
                pinned = mark.action is Action.PIN
        return words[-1], pinned

    def score(self, id_: TrajectoryId) -> tuple[float | None, float | None]:
        """Advantage and priority of a row: those of its newest score."""
        scores = [(s.advantage, s.priority) for s in self.scores if s.trajectory == id_]
        return scores[-1] if scores else (None, None)

    def differs_from(self, store: StoreReader) -> str:
        """Say in which way a store is not true; empty when it is."""
        listed = store.rows(Query(status=None), limit=10_000).rows
        ids = [row.id for row in self.rows]
        if [row.id for row in listed] != ids:
            seen = {row.id for row in listed}
            lost, extra = len(set(ids) - seen), len(seen - set(ids))
            return f"of {len(ids)} rows {lost} are lost, {extra} are too many"
        if len(self.runs) > len(store.runs()) or len(self.tasks) > len(store.tasks()):
            return "the run or its tasks are lost"
        for row in listed:
            uses = [use for use in self.uses if use.trajectory == row.id]
            if (row.status, row.pinned) != self.state(row.id) or row.uses != len(uses):
                return f"the state of {row.id} is wrong"
            if (row.advantage, row.priority) != self.score(row.id):
                return f"the score of {row.id} is wrong"
        for stored, meant in zip(store.get(ids), self.rows, strict=True):
            if stored != meant:
                return f"trajectory {meant.id} differs from what was written"
        pairs: list[tuple[str, object, object]] = [
            ("draws", store.draws(), sorted(self.draws, key=_place)),
            ("uses", store.uses(), sorted(self.uses, key=_place)),
            ("scores", store.scores(), self.scores),
            ("notes", store.notes(), self.notes),
            ("events", store.events(RUN), self.events),
            ("cursor", store.cursor(RUN), self.cursors[-1] if self.cursors else None),
        ]
        return next((f"{name} differ" for name, seen, meant in pairs if seen != meant), "")


def _place(record: Draw | Use) -> tuple[int, int]:
    return record.step, record.slot


def make_life(seed: int, length: int, tokens: int = 400, rows: int = 4) -> list[Operation]:
    """Make the operations of one store, each possible after the ones before."""
    chance = random.Random(seed)
    run = FakeRun(seed, RUN, rows=rows, tokens=tokens)
    truth = Truth()
    life = [Operation("commit", (run.setup(),))]
    step = variant = 0
    while len(life) < length:
        kind = chance.choices(
            ["commit", "two", "fence", "reclaim", "reopen"], [70, 10, 7, 8, 5], k=1
        )[0]
        if kind == "fence":
            step = max(0, step - chance.randrange(3))
            variant += 1
            operation = Operation("fence", after=step - 1)
        elif kind in ("commit", "two"):
            count = 2 if kind == "two" else 1
            known = {row.id for row in truth.rows}
            batches = [_possible(run.step(step + n, variant), known) for n in range(count)]
            step += count
            operation = Operation("commit", tuple(batches))
        else:
            operation = Operation(kind)
        truth = truth.after([operation])
        life.append(operation)
    return life


def _possible(batch: Batch, known: set[TrajectoryId]) -> Batch:
    """Leave out what refers to rows that a reclaim has removed; adds the batch's own to `known`."""
    known |= {row.id for row in batch.trajectories}
    return replace(
        batch,
        draws=[draw for draw in batch.draws if draw.trajectory in known],
        uses=[use for use in batch.uses if use.trajectory in known],
        scores=[score for score in batch.scores if score.trajectory in known],
        marks=[mark for mark in batch.marks if mark.trajectory in known],
    )


def do_all(store: Store, life: Sequence[Operation]) -> None:
    """Do operations one after the other; "reopen" is for those who can."""
    for operation in life:
        operation.do(store)

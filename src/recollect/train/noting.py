"""The notes of a run: what its attempts are given, what comes of it, and what is learnt from it."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.config.schema.config import Config
from recollect.ledger import Note
from recollect.note_ledger import NoteMark, NoteTrial
from recollect.notes.credit import CreditBook
from recollect.notes.distill.distillery import Distillery, Harvest
from recollect.notes.distill.study import studies
from recollect.notes.distill.writer import Writer, ask
from recollect.notes.guide import Guide, trials_of
from recollect.notes.inject import Guidance
from recollect.notes.note import NoteKind
from recollect.notes.remote.link import RemoteNotes
from recollect.notes.store_bank import StoreBank
from recollect.replay.reading import read_rows
from recollect.store.base import Store
from recollect.store.records import Batch, Query
from recollect.train.evaluation import Guiding
from recollect.trajectory import Trajectory
from recollect.types import NoteAction, NoteStatus, RunId, Task, TaskKey


class Notebook:
    """Where the training loop meets the notes room. One for a run; `begin` starts each step.

    Everything it decides is a function of (seed, step, task), of the bank, and of answers that are
    durable, so a resumed run decides the same.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        run: RunId,
        bank: StoreBank,
        guide: Guide,
        writer: Writer | None = None,
        distillery: Distillery | None = None,
        remote: RemoteNotes | None = None,
    ) -> None:
        assert (writer is None) == (distillery is None), "one writes for the other"
        self._config = config
        self._store = store
        self._run = run
        self.bank = bank
        self._guide = guide
        self._writer = writer
        self._distillery = distillery
        self.remote = remote
        self._kinds = frozenset(NoteKind(kind) for kind in config.distill.kinds)
        self._credit = CreditBook(store.note_trials())
        self.harvest = Harvest()
        self.lost: dict[str, str] = {}
        self.added = 0
        self.retired = 0

    def begin(self, step: int) -> None:
        """Take up the notes that are due: durable before any attempt is guided by them."""
        self.harvest, self.added, self.retired = Harvest(), 0, 0
        if self.remote is not None:
            self.remote.search.begin(step)
        if self._distillery is None:
            return
        self.harvest = self._distillery.harvest(step)
        if self.harvest.records:
            self._store.commit(Batch(distillations=self.harvest.records))
        room = max(0, self._config.distill.max_notes - len(self.live()))
        drafts = self.harvest.drafts[:room]
        workspace = self._config.notes.workspace
        self.added = len(self.bank.add(drafts, workspace, self._run, step).notes) if drafts else 0

    def live(self) -> list[Note]:
        """The notes that attempts can be given."""
        return self.bank.notes(self._config.notes.workspace, NoteStatus.LIVE)

    def guidance(
        self, step: int, rows: Sequence[tuple[Task, int]]
    ) -> dict[tuple[TaskKey, int], Guidance]:
        """Guide the attempts of a step; see `Guide.guidance`."""
        return self._guide.guidance(step, rows)

    def guiding(self) -> Guiding | None:
        """Say how an evaluation uses notes; None where it does not."""
        notes = self._config.notes
        if notes.evaluation == "bare":
            return None
        return Guiding(notes.evaluation, notes.share, self._guide.for_task)

    def trials(self, step: int, rows: Sequence[Trajectory]) -> list[NoteTrial]:
        """Write down what notes did in the groups of a step, once for each."""
        found = trials_of(rows, self._run, step)
        self._credit.add(found)
        return found

    def retirements(self, step: int) -> list[NoteMark]:
        """Retire live notes that were tried often enough and do not help.

        Those that a person has taken back stay: what they did before would retire them at once.
        """
        useless = self._guide.useless(self._credit.credits())
        if not useless:
            return []
        newest = {mark.note: mark for mark in self._store.note_marks()}
        by_hand = {id_ for id_, mark in newest.items() if mark.run is None}
        live = {note.id for note in self.live()} - by_hand
        marks = [
            NoteMark(note, NoteAction.RETIRE, reason, self._run, step)
            for note, reason in useless.items()
            if note in live
        ]
        self.retired = len(marks)
        return marks

    def submit(self, step: int, tasks: Sequence[Task], rows: Sequence[Trajectory]) -> None:
        """Have a step's attempts distilled, if it is its turn and the run will see the result."""
        every, delay = self._config.distill.every, self._config.distill.delay
        if self.remote is not None and self.remote.reporter is not None and step % every == 0:
            self.remote.reporter.submit(rows)
        if self._distillery is None or self._writer is None or step % every:
            return
        if step + delay > self._config.run.steps:
            return
        chosen = studies(tasks, rows, self._kinds, self._config.distill.per_step)
        questions = [ask(self._writer, study) for study in chosen]
        answered = self._distillery.submit(step, questions)
        if answered:
            self._store.commit(Batch(distillations=answered))

    def resume(self, done: int) -> None:
        """Put the questions again whose answers are due after `done`, from the rows as stored.

        Rows that cannot be read any more are left out; `lost` says which, and why.
        """
        every, delay = self._config.distill.every, self._config.distill.delay
        last = range(max(1, done - delay + 1), done + 1)
        for step in (step for step in last if every and step % every == 0):
            rows = self._rows_of(step)
            tasks = [self._store.task(key) for key in dict.fromkeys(row.task for row in rows)]
            self.submit(step, tasks, rows)

    def close(self) -> None:
        """Let go of whoever still writes."""
        if self._distillery is not None:
            self._distillery.close()
        if self.remote is not None and self.remote.reporter is not None:
            self.remote.reporter.close()

    def _rows_of(self, step: int) -> list[Trajectory]:
        """Read the fresh rows of a step in the order in which they were committed."""
        query = Query(run=self._run, status=None, min_step=step, max_step=step)
        rows: list[Trajectory] = []
        after: int | None = None
        while True:
            page = self._store.rows(query, after, 256)
            found = read_rows(self._store, [row.id for row in page.rows])
            rows += found.rows.values()
            self.lost |= found.lost
            after = page.next
            if after is None:
                return rows

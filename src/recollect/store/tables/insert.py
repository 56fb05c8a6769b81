"""Putting one batch into the tables, inside a transaction that the writer holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from recollect.canonical import canonical_json, digest
from recollect.errors import StoreConflict, UnknownId
from recollect.ledger import Draw, Mark, NoteLink, Run, Score, Use
from recollect.store.records import Batch
from recollect.store.tables import schema, state
from recollect.store.tables.arrivals import Arrivals
from recollect.store.tables.database import Database
from recollect.store.tables.note_reading import LIST_NOTES
from recollect.store.tables.numbers import Numbers
from recollect.store.tables.rows import chunks, marks
from recollect.store.tables.schema import Table, row_crc
from recollect.trajectory import Trajectory
from recollect.types import LinkKind, RunId, Task


class Insertion:
    """One batch on its way into the tables; counts what was new and what was known."""

    def __init__(
        self,
        connection: Database,
        numbers: Numbers,
        at: float,
        change: int,
        compress: bool,
    ) -> None:
        self._connection = connection
        self._numbers = numbers
        self._at = at
        self._change = change
        self._arrivals = Arrivals(connection, numbers, at, change, compress)
        self._added = 0
        self._known = 0

    @property
    def added(self) -> int:
        """How many records were new."""
        return self._added + self._arrivals.added

    @property
    def known(self) -> int:
        """How many records were stored already."""
        return self._known + self._arrivals.known

    def write(self, batch: Batch) -> None:
        """Insert everything, in the order in which parts refer to each other."""
        run, task = self._numbers.run, self._numbers.task
        optional_run = self._numbers.optional_run
        self._put(schema.RUNS, [_run_facts(r) for r in batch.runs])
        self._put(schema.TASKS, [_task_facts(t) for t in batch.tasks])
        self._put(
            schema.GROUPS,
            [(g.id, run(g.run), g.step, task(g.task), g.policy_version) for g in batch.groups],
        )
        self._arrivals.put(batch.trajectories)
        self._put(
            schema.TASK_STATES,
            [
                (run(s.run), task(s.task), s.step, s.successes, s.rows, int(s.retired))
                + (s.retest_step, canonical_json(dict(s.data)))
                for s in batch.task_states
            ],
        )
        self._put_ledger(batch)
        self._put(
            schema.NOTES,
            [
                (n.id, n.content, n.when_to_use, n.workspace, n.author, float(n.trust))
                + (optional_run(n.run), n.step, canonical_json(dict(n.data)))
                for n in batch.notes
            ],
        )
        self._put_links([*batch.links, *_guided_links(batch.trajectories)])
        self._put_about_notes(batch)
        events = [(e, canonical_json(dict(e.data))) for e in batch.events]
        self._put(
            schema.EVENTS, [(run(e.run), e.step, e.kind, digest(data), data) for e, data in events]
        )
        self._put(
            schema.CURSORS,
            [
                (run(c.run), c.step, c.policy_version, canonical_json(dict(c.data)))
                for c in batch.cursors
            ],
        )

    def _put_ledger(self, batch: Batch) -> None:
        """Insert draws, uses, scores and marks, then bring the rows they name up to date."""
        run, optional_run = self._numbers.run, self._numbers.optional_run
        of_runs: list[Draw | Use | Score | Mark] = [*batch.draws, *batch.uses, *batch.scores]
        of_runs += [mark for mark in batch.marks if mark.run is not None]
        removed = self._removed(of_runs)
        self._put(
            schema.DRAWS,
            [
                (run(d.run), d.step, d.slot, d.trajectory, d.group, d.age)
                + (float(d.probability), d.reason, float(d.weight))
                for d in batch.draws
            ],
        )
        self._put(
            schema.USES,
            [
                (run(u.run), u.step, u.slot, u.trajectory, u.epochs)
                + tuple(_real(value) for value in (u.ratio_mean, u.ratio_p50, u.ratio_p99))
                + tuple(_real(value) for value in (u.ratio_max, u.ess, u.clip_share, u.loss_share))
                for u in batch.uses
            ],
        )
        self._require_draws(batch.uses)
        self._put(
            schema.SCORES,
            [
                (run(s.run), s.step, s.trajectory, float(s.advantage), float(s.priority))
                + (_real(s.ess), _real(s.ratio))
                for s in batch.scores
            ],
        )
        self._put(
            schema.MARKS,
            [
                (m.trajectory, m.action.value, m.reason, optional_run(m.run), m.step)
                for m in batch.marks
                # Removal takes a row's marks along: one that comes back must not find an old one.
                if m.run is None or m.trajectory not in removed
            ],
        )
        records: list[Use | Score | Mark] = [*batch.uses, *batch.scores, *batch.marks]
        touched = dict.fromkeys(record.trajectory for record in records)
        self._require_trajectories(m.trajectory for m in batch.marks if m.run is None)
        state.refresh(self._connection, touched, self._change)

    def _put(self, table: Table, rows: Sequence[tuple[object, ...]]) -> None:
        """Insert rows; those stored already with the same facts are left, others refused."""
        if not rows:
            return
        names = ("number", *table.columns, "at", "crc")
        inserted = self._connection.executemany(
            f"INSERT INTO {table.name} ({', '.join(names)}) "
            f"VALUES ({', '.join('?' * len(names))}) ON CONFLICT DO NOTHING",
            [(*row, row_crc(row)) for row in self._numbered(table, rows)],
        ).rowcount
        self._added += inserted
        if inserted < len(rows):
            self._known += len(rows) - inserted
            self._refuse_changed(table, rows)

    def _numbered(
        self, table: Table, rows: Iterable[tuple[object, ...]]
    ) -> Iterator[tuple[object, ...]]:
        first = self._connection.next_number(table.name)
        return ((number, *facts, self._at) for number, facts in enumerate(rows, first))

    def _refuse_changed(self, table: Table, rows: Iterable[tuple[object, ...]]) -> None:
        live = " AND fence = 0" if table.fenced else ""
        match = " AND ".join(f"{name} {self._connection.SAME} ?" for name in table.key) + live
        for facts in rows:
            named = dict(zip(table.columns, facts, strict=True))
            key = [named[name] for name in table.key]
            sql = f"SELECT {', '.join(table.columns)} FROM {table.name} WHERE {match}"
            if facts not in self._connection.execute(sql, key).fetchall():
                shown = " ".join(str(part) for part in key)
                raise StoreConflict(self._numbers.path, table.name, shown)

    def _put_links(self, links: Sequence[NoteLink]) -> None:
        self._put(
            schema.LINKS,
            [
                (link.note, link.trajectory, link.kind.value)
                + (self._numbers.optional_run(link.run), link.step)
                for link in links
            ],
        )

    def _put_about_notes(self, batch: Batch) -> None:
        optional_run = self._numbers.optional_run
        self._require_notes(mark.note for mark in batch.note_marks)
        self._put(
            schema.NOTE_MARKS,
            [
                (m.note, m.action.value, m.reason, optional_run(m.run), m.step)
                for m in batch.note_marks
            ],
        )
        self._put(
            schema.NOTE_TRIALS,
            [
                (t.note, t.group, t.rows, t.wins, t.bare_rows, t.bare_wins)
                + (optional_run(t.run), t.step)
                for t in batch.note_trials
            ],
        )
        self._put(
            schema.DISTILLATIONS,
            [(d.key, canonical_json(dict(d.data))) for d in batch.distillations],
        )

    def _require_notes(self, ids: Iterable[str]) -> None:
        for chunk in chunks(dict.fromkeys(ids)):
            sql = f"SELECT id FROM notes WHERE fence = 0 AND id IN ({marks(len(chunk))})"
            found = {row[0] for row in self._connection.execute(sql, chunk)}
            for id_ in chunk:
                if id_ not in found:
                    raise UnknownId(self._numbers.path, "note", id_, LIST_NOTES)

    def _require_draws(self, uses: Sequence[Use]) -> None:
        sql = "SELECT slot, trajectory FROM draws WHERE run = ? AND step = ? AND fence = 0"
        drawn: dict[tuple[RunId, int], dict[int, str]] = {}
        for use in uses:
            where = (use.run, use.step)
            if where not in drawn:
                key = [self._numbers.run(use.run), use.step]
                drawn[where] = dict(self._connection.execute(sql, key).fetchall())
            if drawn[where].get(use.slot) != use.trajectory:
                what = f"step {use.step} slot {use.slot} of {use.trajectory}"
                hint = "A use applies a draw: commit the draw in the same batch or before."
                raise UnknownId(self._numbers.path, "draw", what, hint)

    def _removed(self, records: Iterable[Draw | Use | Score | Mark]) -> set[str]:
        """Find what runs say of rows that are not there; UnknownId unless they may have been.

        Between a draw and its commit another process may fence a row, or remove it for good. What
        the step did with it stays true, so neither ends the step.
        """
        missing = self._missing((record.trajectory for record in records), "fence = 0")
        if missing:  # a second look, because only rows that count have an index by id
            missing = self._missing(missing, "fence <> 0")
        if missing:
            sql = "SELECT value FROM meta WHERE key = 'reclaimed'"
            if not self._connection.execute(sql).fetchone()[0]:  # nothing was ever removed
                raise UnknownId(self._numbers.path, "trajectory", missing[0])
        return set(missing)

    def _require_trajectories(self, ids: Iterable[str]) -> None:
        """Refuse what a person says of rows that do not count."""
        for id_ in self._missing(ids, "fence = 0"):
            raise UnknownId(self._numbers.path, "trajectory", id_)

    def _missing(self, ids: Iterable[str], where: str) -> list[str]:
        """Find ids that no row has where something holds, in the order given."""
        missing: list[str] = []
        for chunk in chunks(dict.fromkeys(ids)):
            sql = f"SELECT id FROM trajectories WHERE {where} AND id IN ({marks(len(chunk))})"
            found = {row[0] for row in self._connection.execute(sql, chunk)}
            missing += [id_ for id_ in chunk if id_ not in found]
        return missing


def _real(value: float | None) -> float | None:
    return None if value is None else float(value)


def _run_facts(run: Run) -> tuple[object, ...]:
    return (run.id, run.seed, canonical_json(dict(run.config)))


def _task_facts(t: Task) -> tuple[object, ...]:
    return (t.key, t.environment, t.id, t.version, t.query, t.domain, t.split, t.level)


def _guided_links(trajectories: Sequence[Trajectory]) -> list[NoteLink]:
    """Link each trajectory to the notes in its prompt, so that either leads to the other."""
    return [
        NoteLink(span.note, t.id, LinkKind.GUIDED, t.run, t.step)
        for t in trajectories
        for span in t.notes
    ]

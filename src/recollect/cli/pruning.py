"""Deciding which trajectories `prune` removes, and removing them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from recollect.cli.selection import Selection, newest_versions
from recollect.ledger import Mark
from recollect.store.base import Store, StoreReader
from recollect.store.records import Batch, Query, Reclaimed, Row
from recollect.types import Action, RunId, Status, TrajectoryId

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """What may stay of a selection; None = no such limit."""

    rows: int | None = None
    bytes: int | None = None
    age: int | None = None
    version: int | None = None  # rows of earlier policy versions go

    @property
    def given(self) -> bool:
        """Tell whether there is any limit."""
        return self != Limits()


@dataclass(slots=True)
class Tally:
    """Rows and bytes that go."""

    rows: int = 0
    bytes: int = 0

    def add(self, row: Row) -> None:
        """Count a row."""
        self.rows += 1
        self.bytes += row.bytes


@dataclass(slots=True)
class Plan:
    """What goes: rows that are chosen now, and those evicted or fenced before."""

    ids: list[TrajectoryId] = field(default_factory=list)
    domains: dict[str, Tally] = field(default_factory=dict)
    pinned: int = 0  # chosen, but kept
    reclaims: bool = False  # rows go; else the file is only made smaller
    evicted: Tally = field(default_factory=Tally)
    fenced: Tally = field(default_factory=Tally)

    @property
    def total(self) -> Tally:
        """All that goes."""
        parts = [*self.domains.values(), self.evicted, self.fenced]
        return Tally(sum(part.rows for part in parts), sum(part.bytes for part in parts))

    def add(self, row: Row) -> None:
        """Choose a row."""
        self.ids.append(row.id)
        self.domains.setdefault(row.domain, Tally()).add(row)


def make_plan(
    reader: StoreReader, selection: Selection | None, limits: Limits, evicted: bool, fenced: bool
) -> Plan:
    """Decide what goes, changing nothing and holding only the ids of chosen rows in memory.

    Without limits the whole selection goes. With limits: rows beyond the age or version limit
    first, then the oldest until what stays (pinned rows included) fits the row and byte limits.
    Rows evicted before go as well, unless there is no selection and nobody asked for any rows.
    """
    plan = Plan()
    if selection is not None:
        _choose(plan, selection, limits, newest_versions(reader))
    plan.reclaims = selection is not None or evicted or fenced
    if plan.reclaims:
        for row in Selection(reader, (Query(status=Status.EVICTED, pinned=False),)).rows():
            plan.evicted.add(row)
    if fenced:
        for row in Selection(reader, (Query(status=None, fenced=True),)).rows():
            plan.fenced.add(row)
    return plan


def _choose(plan: Plan, selection: Selection, limits: Limits, newest: dict[RunId, int]) -> None:
    excess = _excess(selection, limits, newest)
    for row in selection.rows():
        if row.status is Status.EVICTED:
            continue  # counted apart: it was removed from replay before
        too_old = _is_too_old(row, limits, newest)
        if limits.given and not too_old and excess.rows <= 0 and excess.bytes <= 0:
            continue
        if row.pinned:
            plan.pinned += 1
            continue
        plan.add(row)
        if not too_old:
            excess.rows -= 1
            excess.bytes -= row.bytes


def _excess(selection: Selection, limits: Limits, newest: dict[RunId, int]) -> Tally:
    """By how much the rows that are young enough exceed the row and byte limits."""
    if limits.rows is None and limits.bytes is None:
        return Tally()
    staying = Tally()
    for row in selection.rows():
        if row.status is not Status.EVICTED and (
            row.pinned or not _is_too_old(row, limits, newest)
        ):
            staying.add(row)
    return Tally(
        0 if limits.rows is None else staying.rows - limits.rows,
        0 if limits.bytes is None else staying.bytes - limits.bytes,
    )


def _is_too_old(row: Row, limits: Limits, newest: dict[RunId, int]) -> bool:
    version = row.policy_version
    if version is None:
        return False
    if limits.version is not None and version < limits.version:
        return True
    return limits.age is not None and newest.get(row.run, version) - version > limits.age


def carry_out(writer: Store, plan: Plan, fenced: bool, compact: bool) -> Reclaimed:
    """Evict what was chosen, remove all that is evicted for good, and shrink the file if asked.

    Where nobody asked for any rows to go, only the file shrinks.
    """
    if plan.ids:
        writer.commit_all(_batches(plan.ids))
    removed = writer.reclaim(fenced=fenced) if plan.reclaims else Reclaimed(0, 0)
    if compact:
        writer.compact()
    return removed


def _batches(ids: list[TrajectoryId]) -> Iterator[Batch]:
    for start in range(0, len(ids), _BATCH):
        chunk = ids[start : start + _BATCH]
        yield Batch(marks=[Mark(id_, Action.EVICT, "pruned by hand") for id_ in chunk])

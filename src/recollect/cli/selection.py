"""From filters to rows: resolving names, ages per run, walking pages."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from recollect.cli.filters import Filters, MoreFilters, StatusChoice
from recollect.errors import AmbiguousId, UnknownId
from recollect.store.base import StoreReader
from recollect.store.records import Page, Query, Row
from recollect.types import RunId, Status, TaskKey

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that match any of the queries; no row matches two."""

    reader: StoreReader
    queries: tuple[Query, ...]

    def page(self, after: int | None, limit: int, newest_first: bool) -> Page:
        """List a page in order of arrival, as `StoreReader.rows` does."""
        pages = [self.reader.rows(query, after, limit, newest_first) for query in self.queries]
        merged = list(_merge([page.rows for page in pages], newest_first))
        more = len(merged) > limit or any(page.next is not None for page in pages)
        listed = tuple(merged[:limit])
        return Page(listed, listed[-1].seq if more and listed else None)

    def rows(self) -> Iterator[Row]:
        """Walk all rows in order of arrival, holding a page at a time in memory."""
        yield from _merge([self._walk(query) for query in self.queries], False)

    def _walk(self, query: Query) -> Iterator[Row]:
        after: int | None = None
        while True:
            page = self.reader.rows(query, after, _PAGE)
            yield from page.rows
            after = page.next
            if after is None:
                return


def _merge(parts: list[Iterator[Row]] | list[tuple[Row, ...]], newest: bool) -> Iterable[Row]:
    return heapq.merge(*parts, key=lambda row: row.seq, reverse=newest)


def select(
    reader: StoreReader,
    filters: Filters,
    more: MoreFilters | None = None,
    fenced: bool = False,
) -> Selection:
    """Build the queries for what a person asked; UnknownId or AmbiguousId for unknown names."""
    more = more or MoreFilters()
    query = Query(
        task=resolve_task(reader, filters.task) if filters.task is not None else None,
        run=resolve_run(reader, filters.run) if filters.run is not None else None,
        domain=filters.domain,
        origin=filters.origin,
        status=_status(filters.status, fenced),
        success=filters.success,
        pinned=more.pinned,
        min_reward=filters.min_reward,
        max_reward=filters.max_reward,
        min_uses=filters.min_uses,
        max_uses=filters.max_uses,
        fenced=fenced,
    )
    return Selection(reader, aged(reader, query, more.min_age, more.max_age))


def aged(
    reader: StoreReader, query: Query, min_age: int | None, max_age: int | None
) -> tuple[Query, ...]:
    """Split a query by run, where ages are asked for: each run has a newest version of its own."""
    if min_age is None and max_age is None:
        return (query,)
    return tuple(
        replace(
            query,
            run=run,
            min_version=None if max_age is None else newest - max_age,
            max_version=None if min_age is None else newest - min_age,
        )
        for run, newest in newest_versions(reader).items()
        if query.run in (None, run)
    )


def newest_versions(reader: StoreReader) -> dict[RunId, int]:
    """Say how far each run's policy has come: the versions that ages are counted from."""
    newest: dict[RunId, int] = {}
    for run in (run.id for run in reader.runs().values()):
        cursor, sampled = reader.cursor(run), reader.newest_version(run)
        known = [cursor.policy_version if cursor else None, sampled]
        if numbers := [number for number in known if number is not None]:
            newest[run] = max(numbers)
    return newest


def resolve_run(reader: StoreReader, given: str) -> RunId:
    """Complete a shortened run id."""
    ids = sorted(run.id for run in reader.runs().values())
    fits = [given] if given in ids else [run for run in ids if given and run.startswith(given)]
    if len(fits) > 1:
        raise AmbiguousId(reader.path, "run", given, fits[:3])
    if not fits:
        hint = f"Runs in this store: {_listed(ids)}."
        raise UnknownId(reader.path, "run", given, hint)
    return RunId(fits[0])


def newest_run(reader: StoreReader) -> RunId:
    """Name the run that began last."""
    runs = reader.runs()
    if not runs:
        raise UnknownId(reader.path, "run", "", "The store holds no run yet.")
    return runs[max(runs)].id


def resolve_task(reader: StoreReader, given: str) -> TaskKey:
    """Find a task by its key, by the beginning of its key, or by its id."""
    try:
        return reader.task(TaskKey(given)).key
    except UnknownId:
        tasks = reader.tasks().values()
    named = [task for task in tasks if task.id == given]
    fits = named or [task for task in tasks if given and task.key.startswith(given)]
    if len(fits) > 1:
        shown = [f"{task.environment} {task.key}" for task in fits[:3]]
        raise AmbiguousId(reader.path, "task", given, shown)
    if not fits:
        hint = 'List tasks with: recollect pool sql "SELECT key, environment, id FROM tasks"'
        raise UnknownId(reader.path, "task", given, hint)
    return fits[0].key


def _status(choice: StatusChoice | None, fenced: bool) -> Status | None:
    """Live unless asked otherwise; a fenced row's status no longer means anything."""
    if choice is None:
        return None if fenced else Status.LIVE
    return None if choice is StatusChoice.ANY else Status(choice.value)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5]) or "none"
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")

"""Metadata rows: building the SQL for a query, and records from what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import islice
from typing import Any, TypeVar

from recollect.canonical import canonical_json
from recollect.store.records import Query, Row
from recollect.types import Origin, Status

T = TypeVar("T")
_FEW = 500  # ids that are bound one by one; SQLite allows some 30,000 values in a statement

SELECT_ROW = """
    SELECT t.seq, t.id, k.key, k.environment, k.domain, r.id, t.step, t.group_id, t.origin,
           t.policy_version, t.reward, t.success, t.tokens, t.sampled, t.entropy, t.logprob,
           t.bytes, t.uses, t.last_use, t.advantage, t.priority, t.status, t.pinned, t.fence, t.at
    FROM trajectories t JOIN tasks k ON k.number = t.task JOIN runs r ON r.number = t.run"""
COUNT_ROWS = """
    SELECT count(*)
    FROM trajectories t JOIN tasks k ON k.number = t.task JOIN runs r ON r.number = t.run"""

# Field of Query -> the condition it adds. Values are always bound, never written into the SQL.
_CONDITIONS = {
    "task": "k.key = ?",
    "run": "r.id = ?",
    "domain": "k.domain = ?",
    "origin": "t.origin = ?",
    "status": "t.status = ?",
    "success": "t.success = ?",
    "pinned": "t.pinned = ?",
    "min_reward": "t.reward >= ?",
    "max_reward": "t.reward <= ?",
    "min_version": "t.policy_version >= ?",
    "max_version": "t.policy_version <= ?",
    "min_uses": "t.uses >= ?",
    "max_uses": "t.uses <= ?",
    "min_step": "t.step >= ?",
    "max_step": "t.step <= ?",
}


_ROW_FIELDS = tuple(field.name for field in fields(Row))
_CONVERSIONS: dict[str, Callable[[Any], object]] = {
    "origin": Origin,
    "status": Status,
    "success": bool,
    "pinned": bool,
    "fenced": bool,
}


def where(query: Query, each: str) -> tuple[str, list[object]]:
    """Turn a query into a WHERE clause and its values; `each` is `Database.EACH`."""
    clauses = ["t.fence <> 0" if query.fenced else "t.fence = 0"]
    values: list[object] = []
    for field, condition in _CONDITIONS.items():
        value = getattr(query, field)
        if value is not None:
            clauses.append(condition)
            values.append(_stored(value))
    if query.ids is not None:
        clause, bound = _among(query.ids, each)
        clauses.append(clause)
        values += bound
    return " WHERE " + " AND ".join(clauses), values


def _stored(value: object) -> object:
    """Spell a value as the tables hold it: truth is a number there."""
    if isinstance(value, Origin | Status):
        return value.value
    return int(value) if isinstance(value, bool) else value


def _among(ids: Sequence[str], each: str) -> tuple[str, list[object]]:
    """Return the condition that a row has one of these ids, however many they are."""
    if len(ids) <= _FEW:
        return f"t.id IN ({marks(len(ids))})", list(ids)
    # SQLite's JSON ends a text at its first NUL, so that another id might match; PostgreSQL's
    # refuses it. No id has one.
    wanted = [id_ for id_ in ids if "\0" not in id_]
    return f"t.id IN (SELECT value FROM {each})", [canonical_json(wanted)]


def marks(count: int) -> str:
    """Return `count` placeholders; for none, what equals nothing (an empty IN is SQLite's own)."""
    return ",".join("?" * count) or "NULL"


def chunks(items: Iterable[T], size: int = 500) -> Iterator[list[T]]:
    """Cut a sequence into lists of at most `size`; 500 is far below any limit on bound values."""
    rest = iter(items)
    while block := list(islice(rest, size)):
        yield block


def to_row(values: tuple[Any, ...]) -> Row:
    """Build a Row from the columns of SELECT_ROW, which come in the order of its fields."""
    named = dict(zip(_ROW_FIELDS, values, strict=True))
    for name, convert in _CONVERSIONS.items():
        named[name] = convert(named[name])
    return Row(**named)

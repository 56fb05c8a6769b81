"""Our SQL in PostgreSQL's words, and text that PostgreSQL cannot hold as it is."""

from __future__ import annotations

import re
from functools import lru_cache

# Longest first. TEXT sorts by bytes, as in SQLite: prefixes of ids are found by order.
_TYPES = {
    "INTEGER PRIMARY KEY AUTOINCREMENT": "BIGINT PRIMARY KEY",
    "WITHOUT ROWID": "",
    "INTEGER": "BIGINT",
    "REAL": "DOUBLE PRECISION",
    "TEXT": 'TEXT COLLATE "C"',
    "BLOB": "BYTEA",
}
_TYPE = re.compile("|".join(rf"\b{words}\b" for words in _TYPES))
# PostgreSQL's text has no NUL, ours may (a task's query is whatever its author wrote).
_ESCAPE, _NUL = "\x1a", "\x1a0"
_MOST = 2**63


@lru_cache(maxsize=1024)
def with_places(sql: str) -> bytes:
    """Spell `?` the way the driver wants it. No statement of ours has a question mark in a text."""
    return sql.replace("%", "%%").replace("?", "%s").encode()


def with_types(statement: str) -> str:
    """Spell a statement of the schema, written for SQLite, in PostgreSQL's types."""
    return _TYPE.sub(lambda found: _TYPES[found[0]], statement)


def bound(value: object) -> object:
    """Turn a value into one that PostgreSQL can hold; OverflowError if no row could have it."""
    if isinstance(value, str):
        return _escaped(value) if "\0" in value or _ESCAPE in value else value
    if isinstance(value, float):
        return value + 0.0  # SQLite forgets the sign of zero, and so do we: copies are equal
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -_MOST <= value < _MOST:
        raise OverflowError(f"{value} does not fit 64 bits")
    return value


def unescaped(text: str) -> str:
    """Undo what `bound` did to a text."""
    if _ESCAPE not in text:
        return text
    return text.replace(_NUL, "\0").replace(_ESCAPE + "1", _ESCAPE)


def _escaped(text: str) -> str:
    return text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _NUL)

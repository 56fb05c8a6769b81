"""A person's own SQL, kept from writing, from leaving the file, and from running for ever."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from recollect.errors import BadQuery
from recollect.store.sqlite.connection import connect_reader

_SECONDS = 30.0
_MOST_ROWS = 2**31 - 1  # what sqlite3 can count to
_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_REFUSED_FUNCTIONS = {"load_extension", "fts3_tokenizer"}


def run_sql(path: Path, query: str, limit: int) -> tuple[list[str], list[tuple[object, ...]]]:
    """Run one SELECT on a connection of its own; column names and at most `limit` rows."""
    connection = connect_reader(path)
    deadline = time.monotonic() + _SECONDS
    connection.set_authorizer(_authorise)
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 100_000)
    try:
        cursor = connection.execute(query)
        if cursor.description is None:
            raise BadQuery(path, "it selects nothing")
        found = cursor.fetchmany(min(limit, _MOST_ROWS))
        return [column[0] for column in cursor.description], found
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise BadQuery(path, _explain(str(error))) from error
    finally:
        connection.close()


def _authorise(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    refused = action == sqlite3.SQLITE_FUNCTION and second in _REFUSED_FUNCTIONS
    return sqlite3.SQLITE_OK if action in _ALLOWED and not refused else sqlite3.SQLITE_DENY


def _explain(text: str) -> str:
    if "not authorized" in text or "prohibited" in text or "readonly" in text:
        return "only SELECT is allowed"
    if "interrupted" in text:
        return f"it ran longer than {_SECONDS:g} s"
    return text

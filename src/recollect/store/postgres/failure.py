"""PostgreSQL's complaints in our words."""

from __future__ import annotations

import psycopg
from psycopg import errors

from recollect.errors import (
    BadQuery,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
)
from recollect.store.address import PostgresAddress

_GONE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
)
_COMING = (
    *("starting up", "shutting down", "recovery mode", "not yet accepting", "not accepting"),
    # It was there a moment ago, and went away in the middle of our greeting.
    *("closed the connection unexpectedly", "Connection reset by peer", "terminating connection"),
)
_DAMAGED = (errors.UndefinedTable, errors.UndefinedColumn, errors.DataCorrupted)


def is_gone(error: psycopg.Error) -> bool:
    """Tell a lost connection from a refused statement."""
    if isinstance(error, _GONE):
        return True
    # What the server said has a code; what became of the connection has none.
    is_about_it = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return is_about_it and error.sqlstate is None


def is_coming(error: psycopg.Error) -> bool:
    """Tell a server that will soon take connections from one that is not there."""
    return any(words in str(error) for words in _COMING)


def translate(place: PostgresAddress, error: psycopg.Error, waited: float = 0.0) -> StoreError:
    """Name a failure by the class that says what to do about it."""
    text = explain(error)
    if is_gone(error):
        return StoreUnreachable(place, text)
    if isinstance(error, errors.DiskFull):
        return StoreFull(place, None)
    if isinstance(error, errors.LockNotAvailable):
        return StoreBusy(place, round(waited, 1))
    if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
        return StoreReadOnly(place, text)
    if isinstance(error, (*_DAMAGED, errors.IndexCorrupted)):
        return StoreDamaged(place, text)
    if isinstance(error, psycopg.DataError):
        return BadQuery(place, f"it holds a value that no row can have ({text})", "Change it.")
    return StoreFailed(place, text)


def explain(error: psycopg.Error) -> str:
    """Say in one line what happened."""
    text = error.diag.message_primary or str(error) or type(error).__name__
    return " ".join(text.split()).rstrip(".")

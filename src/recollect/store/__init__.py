"""The store room: trajectories and their story, kept exactly and durably."""

from __future__ import annotations

from pathlib import Path

from recollect.store.sqlite import SqliteReader, SqliteStore


def open_store(path: Path | str, *, compress: bool = False) -> SqliteStore:
    """Open a store for writing, making it if there is none; one writer at a time.

    Raises StoreLocked, naming the owner, where another process is writing.
    """
    return SqliteStore(path, compress=compress)


def open_reader(path: Path | str) -> SqliteReader:
    """Open an existing store for reading; works while somebody else writes."""
    return SqliteReader(path)


__all__ = ["open_reader", "open_store"]

"""A store that has no room left: an error by name, nothing lost, and it goes on once there is.

SQLite's own limit on the pages of a file stands in for the end of the disk: it runs everywhere,
needs no rights, and gives the same answer to a write as a full disk does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recollect.errors import PromiseBroken, StoreFull
from recollect.proof.killing import check_clean
from recollect.proof.life import Operation, Truth, do_all
from recollect.store import open_reader
from recollect.store.sqlite import SqliteStore

_NO_LIMIT = 1_000_000  # pages


def do_until_full(store: SqliteStore, life: Sequence[Operation]) -> int:
    """Do operations until there is no room; returns how many were acknowledged."""
    for number, operation in enumerate(life):
        try:
            operation.do(store)
        except StoreFull:
            return number
    return len(life)


def check_true(path: Path, truth: Truth) -> None:
    """Raise PromiseBroken unless a reader sees exactly this, and verify nothing wrong."""
    with open_reader(path) as reader:
        differences = truth.differs_from(reader)
        if differences:
            raise PromiseBroken(differences)
        check_clean(reader)


def stop_at_limit(path: Path, journal: str, life: Sequence[Operation], pages: int) -> int:
    """Live in a store that may grow by so many pages; returns after how many operations it stops.

    What was acknowledged must be there then, and the same handle must go on when there is room.
    """
    with SqliteStore(path, journal=journal) as store:
        store.commit_all(life[0].batches)
        connection = store._connection  # the limit is the connection's own
        (used,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {used + pages}")
        done = 1 + do_until_full(store, life[1:])
        differences = Truth().after(life[:done]).differs_from(store)
        if differences:
            raise PromiseBroken(f"at {pages} pages: {differences}")
        connection.execute(f"PRAGMA max_page_count = {_NO_LIMIT}")
        do_all(store, life[done:])
        check_true(path, Truth().after(life))
    path.unlink()
    return done

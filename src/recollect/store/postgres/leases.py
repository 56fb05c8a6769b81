"""One trainer per run: who fences a run or takes a step in it owns it until it closes the store.

The lock is PostgreSQL's and ends with the connection, so a killed owner holds nothing. An owner
whose connection was lost takes its lock again; if somebody else was owner meanwhile, the epoch
has grown, and it may not write any more.
"""

from __future__ import annotations

import time

from recollect.errors import StoreLocked
from recollect.store.postgres.database import PostgresDatabase
from recollect.store.postgres.link import lock_key, who
from recollect.types import RunId

_SECONDS = 2.0  # until the server has noticed that a killed owner is gone
_PAUSE = 0.02
_END_HOLDER = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted "
    "AND objsubid = 1 AND pid <> pg_backend_pid() AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND ((CAST(classid AS BIGINT) << 32) | CAST(objid AS BIGINT)) = ?"
)


class Leases:
    """The runs that this writer owns. All methods but `settle` need an open transaction."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._session = database.sessions
        self._held: dict[RunId, int] = {}
        self._claimed: dict[RunId, int] = {}

    def claim(self, run: RunId) -> None:
        """Become the owner of a run; StoreLocked, naming the owner, where there is another."""
        if run in self._held or run in self._claimed:
            return
        self._lock(run)
        row = self._database.execute("SELECT epoch FROM leases WHERE run = ?", [run]).fetchone()
        epoch = 1 if row is None else int(row[0]) + 1
        self._database.execute(
            "INSERT INTO leases VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE SET "
            "epoch = excluded.epoch, owner = excluded.owner",
            [run, epoch, who()],
        )
        self._claimed[run] = epoch

    def settle(self, kept: bool) -> None:
        """Keep what the transaction claimed, or not: it was committed, or rolled back."""
        if kept:
            self._held |= self._claimed
        self._claimed = {}

    def renew(self) -> None:
        """Take the locks again after the connection was lost; StoreLocked if a run is lost."""
        if self._session == self._database.sessions:
            return
        for run, epoch in self._held.items():
            row = self._database.execute(
                "SELECT epoch, owner FROM leases WHERE run = ?", [run]
            ).fetchone()
            if row is None or row[0] != epoch:
                owner = "somebody else" if row is None else str(row[1])
                raise StoreLocked(self._database.place, f"{owner}, which took over run {run}")
            # Whoever holds the lock is our own old connection, which the server has not missed
            # yet: a new owner would have had to wait for it.
            self._database.execute(_END_HOLDER, [self._key(run)])
            self._lock(run)
        self._session = self._database.sessions

    def _lock(self, run: RunId) -> None:
        """Take the lock of a run for as long as the connection lives."""
        until = time.monotonic() + _SECONDS
        key = [self._key(run)]
        while self._database.execute("SELECT pg_try_advisory_lock(?)", key).fetchone() != (True,):
            if time.monotonic() > until:
                row = self._database.execute(
                    "SELECT owner FROM leases WHERE run = ?", [run]
                ).fetchone()
                owner = "another process" if row is None else str(row[0])
                raise StoreLocked(self._database.place, f"{owner} (run {run})")
            time.sleep(_PAUSE)

    def _key(self, run: RunId) -> int:
        return lock_key(self._database.place.schema, "run", run)

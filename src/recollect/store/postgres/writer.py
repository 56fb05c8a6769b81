"""Writing a PostgreSQL store: any number of writers, and no answer is left in doubt.

A connection can be lost between a COMMIT and its answer. Every transaction therefore leaves a
receipt; a writer that lost an answer comes back, waits until its old transaction is over (all
writers go one after the other), and looks. What was committed is not done again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg

from recollect.errors import StoreError, StoreUnreachable
from recollect.store.address import RETRY_SECONDS, PostgresAddress
from recollect.store.codec import require_zstd
from recollect.store.postgres.connection import connect_writer
from recollect.store.postgres.failure import explain, is_gone, translate
from recollect.store.postgres.leases import Leases
from recollect.store.postgres.patience import Patience
from recollect.store.postgres.reader import PostgresReader
from recollect.store.tables.writer import TableStore
from recollect.types import RunId

T = TypeVar("T")
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A transaction whose COMMIT was sent and not answered."""

    change: int
    result: Any


class PostgresStore(TableStore, PostgresReader):
    """A writer of one store; promises as in `recollect.store.base.Store`.

    A lost connection is made again and the work repeated while `retry_seconds` last, without
    ever writing anything twice; then StoreUnreachable.
    """

    def __init__(
        self,
        address: PostgresAddress,
        *,
        compress: bool = False,
        clock: Callable[[], float] = time.time,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        if compress:
            require_zstd()  # before anything is made, and not with the first rows
        connection = connect_writer(address, retry_seconds)
        TableStore.__init__(self, connection, compress, clock)
        self._leases = Leases(connection)
        self._writer = uuid.uuid4().hex

    def close(self) -> None:
        """Give back the runs it owns, and the connection. Closing twice is fine."""
        self._connection.retry_seconds = 0
        with suppress(StoreError, psycopg.Error):  # a receipt that stays is removed in a day
            self._connection.execute("DELETE FROM receipts WHERE writer = ?", [self._writer])
        super().close()

    def compact(self) -> None:
        """Give the space of removed rows back to the file system (rewrites the tables)."""
        with self._connection.translated():
            names = ", ".join(self._connection.given())
            self._connection.execute(f"VACUUM FULL payloads, {names}")

    def _claim(self, run: RunId) -> None:
        self._leases.claim(run)

    def _write(self, work: Callable[[int], T], repeatable: bool = True) -> T:
        patience = Patience(self._connection.retry_seconds)
        doubt: _Doubt | None = None
        begun, started = False, time.monotonic()
        while True:
            try:
                self._connection.begin()
                change = self._next_change()
                if doubt is not None and self._receipt() == doubt.change:
                    self._undo(claims_are_kept=True)
                    result: T = doubt.result
                    return result
                doubt = None
                if begun and not repeatable:
                    why = "the connection was lost while batches were being read"
                    raise StoreUnreachable(self.path, why)
                begun = True
                self._leases.settle(kept=False)
                self._leases.renew()
                done = work(change)
                self._sign(change)
                doubt = _Doubt(change, done)
                self._connection.commit()
                self._leases.settle(kept=True)
                return done
            except psycopg.Error as error:
                self._undo(claims_are_kept=None)
                if not is_gone(error):
                    waited = time.monotonic() - started
                    raise translate(self.path, error, waited) from error
                if not patience.wait():
                    raise StoreUnreachable(self.path, explain(error), doubt is None) from error
            except BaseException:
                self._undo(claims_are_kept=False)
                raise

    def _undo(self, claims_are_kept: bool | None) -> None:
        """End the transaction; None leaves open what becomes of the runs that it claimed."""
        self._numbers.forget()
        self._connection.rollback()
        if claims_are_kept is not None:
            self._leases.settle(claims_are_kept)

    def _receipt(self) -> int | None:
        sql = "SELECT change FROM receipts WHERE writer = ?"
        row = self._connection.execute(sql, [self._writer]).fetchone()
        return None if row is None else int(row[0])

    def _sign(self, change: int) -> None:
        """Leave a receipt, in the transaction that it is for; those of the dead are swept."""
        now = time.time()
        self._connection.execute(
            "INSERT INTO receipts VALUES (?, ?, ?) ON CONFLICT (writer) DO UPDATE SET "
            "change = excluded.change, at = excluded.at",
            [self._writer, change, now],
        )
        if change % 1024 == 0:
            self._connection.execute("DELETE FROM receipts WHERE at < ?", [now - _DAY])

"""Making a connection to a PostgreSQL server, set up so that what it acknowledges is durable."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.rows import TupleRow
from psycopg.types.numeric import NumericBinaryLoader

from recollect.errors import BadAddress, StoreFailed, StoreUnreachable
from recollect.store.address import PostgresAddress
from recollect.store.postgres.failure import explain, is_coming, is_gone
from recollect.store.postgres.patience import Patience
from recollect.store.postgres.spelling import unescaped

_OLDEST = 120000  # server version; 12 is the oldest that we have reason to think works
# Milliseconds. A writer that hangs in a transaction would stop all others; one that encodes a
# large batch between two statements does not hang.
_SETTINGS = {
    "idle_in_transaction_session_timeout": 120_000,
    "lock_timeout": 60_000,
    "tcp_keepalives_idle": 20,
    "tcp_keepalives_interval": 10,
    "tcp_keepalives_count": 3,
}
# A network that swallows packets is noticed within a minute or so, on both sides.
_KEEPALIVE = {
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


class _TextLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return unescaped(bytes(data).decode())


class _FloatLoader(NumericBinaryLoader):
    def load(self, data: Buffer) -> float:  # type: ignore[override]
        return float(super().load(data))


def connect(
    address: PostgresAddress, read_only: bool = False, patience: Patience | None = None
) -> psycopg.Connection[TupleRow]:
    """Connect once; with patience, wait for a server that is about to be ready, or was there.

    One that was never there is an address to be corrected: that is told at once. Raises psycopg's
    error where there is no patience, ours where there is.
    """
    met = False
    while True:
        try:
            return _prepared(psycopg.connect(**_parameters(address, read_only)), address)
        except psycopg.Error as error:
            if patience is None:
                raise
            met = met or is_coming(error)
            if not (is_gone(error) and met and patience.wait()):
                raise StoreUnreachable(address, explain(error)) from error


def lock_key(*names: str) -> int:
    """Make the number that stands for these names among PostgreSQL's advisory locks."""
    digest = hashlib.blake2b("\0".join(("recollect", *names)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def who() -> str:
    """Introduce this process, for the messages that others get."""
    return f"process {os.getpid()} on {socket.gethostname()} ({Path(sys.argv[0]).name})"


def _parameters(address: PostgresAddress, read_only: bool) -> dict[str, Any]:
    try:
        given = conninfo_to_dict(address.url)
    except psycopg.Error as error:
        raise BadAddress(explain(error).replace(address.url, str(address))) from None
    settings = {"search_path": address.schema, **_SETTINGS}
    if read_only:
        settings["default_transaction_read_only"] = "on"
    options = [str(given.get("options") or ""), *(f"-c {k}={v}" for k, v in settings.items())]
    name = f"recollect {os.getpid()}@{socket.gethostname()}"[:63]
    ours = {"options": " ".join(options).strip(), "client_encoding": "UTF8", "autocommit": True}
    return {"application_name": name, **_KEEPALIVE, **given, **ours}


def _prepared(
    link: psycopg.Connection[TupleRow], address: PostgresAddress
) -> psycopg.Connection[TupleRow]:
    try:
        link.adapters.register_loader("text", _TextLoader)
        link.adapters.register_loader("numeric", _FloatLoader)
        names = ("server_encoding", "fsync", "full_page_writes", "synchronous_commit")
        asked = ", ".join(f"current_setting('{name}')" for name in names)
        row = link.execute(f"SELECT {asked}".encode()).fetchone() or ()
        encoding, fsync, full_pages, synchronous = row
        if link.info.server_version < _OLDEST:
            raise StoreFailed(address, f"its server is too old ({link.info.server_version})")
        if encoding != "UTF8":
            raise StoreFailed(address, f"its database is encoded in {encoding}, not in UTF8")
        if "off" in (fsync, full_pages):
            why = "its server runs with fsync or full_page_writes off and may lose what it has said"
            raise StoreFailed(address, f"{why} is stored")
        if synchronous in ("off", "local"):
            link.execute("SET synchronous_commit = on")
    except BaseException:
        link.close()
        raise
    return link

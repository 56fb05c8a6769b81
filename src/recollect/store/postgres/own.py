"""The tables that only a PostgreSQL store has.

They keep what SQLite keeps in its file's header, and what several writers need.
"""

from __future__ import annotations

from recollect.store.tables.schema import APPLICATION_ID

IDENTITY = "recollect_store"

DDL = (
    f"CREATE TABLE {IDENTITY} (application BIGINT NOT NULL, schema BIGINT NOT NULL)",
    f"INSERT INTO {IDENTITY} VALUES ({APPLICATION_ID}, 0)",
    # The largest number that a table ever gave to a row, written down before rows are deleted.
    'CREATE TABLE given (name TEXT COLLATE "C" PRIMARY KEY, number BIGINT NOT NULL)',
    # The newest transaction of each writer: how one whose answer was lost learns what became of it.
    'CREATE TABLE receipts (writer TEXT COLLATE "C" PRIMARY KEY, change BIGINT NOT NULL, '
    "at DOUBLE PRECISION NOT NULL)",
    # Who trains a run; `epoch` grows with every owner, so that an old one notices.
    'CREATE TABLE leases (run TEXT COLLATE "C" PRIMARY KEY, epoch BIGINT NOT NULL, '
    'owner TEXT COLLATE "C" NOT NULL)',
    # Frames are checksummed and perhaps compressed by us: PostgreSQL should not try.
    "ALTER TABLE payloads ALTER COLUMN frame SET STORAGE EXTERNAL",
)

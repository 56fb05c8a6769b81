"""A person's own SQL, kept from writing and from running for ever."""

from __future__ import annotations

import psycopg
from psycopg import errors

from recollect.errors import BadQuery
from recollect.store.address import PostgresAddress
from recollect.store.postgres.failure import explain, is_gone, translate
from recollect.store.postgres.link import connect
from recollect.store.postgres.patience import Patience

_SECONDS = 30.0
_MOST_ROWS = 2**31 - 1  # what FETCH can count to
_HINT = (
    'See the tables with: recollect pool sql "SELECT table_name, column_name FROM '
    'information_schema.columns WHERE table_schema = current_schema()"'
)


def run_sql(
    address: PostgresAddress, query: str, limit: int
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Run one SELECT on a connection of its own; column names and at most `limit` rows.

    A cursor can only be declared for what reads, and the transaction is read-only. What the
    server's functions may do, the role decides: give people one that may only SELECT.
    """
    if "\0" in query:
        raise BadQuery(address, "it holds a NUL", _HINT)
    with connect(address, read_only=True, patience=Patience(0)) as link:
        try:
            link.execute(f"SET statement_timeout = {_SECONDS * 1000:.0f}".encode())
            link.execute("BEGIN READ ONLY")
            declared = f"DECLARE asked NO SCROLL CURSOR FOR {query}\n"
            link.execute(declared.encode(), prepare=True)  # a prepared statement is a single one
            most = min(limit, _MOST_ROWS)
            cursor = link.execute(f"FETCH {most} FROM asked".encode(), binary=True)
            names = [column.name for column in cursor.description or ()]
            return names, cursor.fetchall()
        except psycopg.Error as error:
            if is_gone(error):
                raise translate(address, error) from error
            raise BadQuery(address, _explain(error), _HINT) from error
        except ValueError as error:  # text that is not Unicode
            raise BadQuery(address, str(error), _HINT) from error


def _explain(error: psycopg.Error) -> str:
    if isinstance(error, errors.QueryCanceled):
        return f"it ran longer than {_SECONDS:g} s"
    text = explain(error)
    return f"only one SELECT is allowed ({text})" if isinstance(error, errors.SyntaxError) else text

"""Where a store is: a file, or a schema in a PostgreSQL database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from recollect.errors import BadAddress

_SCHEMES = ("postgres://", "postgresql://")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?\Z")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_ESCAPES = "in a user or password write / ? # @ [ ] as %2F %3F %23 %40 %5B %5D"
_DEFAULT_SCHEMA = "recollect"
RETRY_SECONDS = 60.0  # for which a server that went away is tried again


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A schema in a PostgreSQL database. Shown without its password.

    `url` is what libpq connects with (the password included), `schema` holds the tables: one
    store per schema, any number of stores per database.
    """

    url: str
    schema: str = _DEFAULT_SCHEMA

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        hidden = f"{name}{':***' if colon else ''}{at}{host}"
        asked = [(k, "***" if "password" in k else v) for k, v in parse_qsl(parts.query)]
        if self.schema != _DEFAULT_SCHEMA:
            asked.append(("schema", self.schema))
        return urlunsplit(parts._replace(netloc=hidden, query=urlencode(asked, safe="/*")))

    def __repr__(self) -> str:
        return f"PostgresAddress({str(self)!r})"  # a traceback is no place for a password


Place: TypeAlias = Path | PostgresAddress


def is_address(given: object) -> bool:
    """Tell a PostgreSQL address from the path of a file."""
    return isinstance(given, PostgresAddress) or (
        isinstance(given, str) and given.startswith(_SCHEMES)
    )


def parse_address(given: str) -> PostgresAddress:
    """Read postgres://user:password@host:port/database?schema=NAME; BadAddress if it is none.

    Everything but `schema` is libpq's: any of its parameters may stand in the query, and what is
    left out comes from its own variables (PGHOST, PGPASSWORD, ...) and ~/.pgpass.
    """
    try:
        parts = urlsplit(given)
        _check_host(given, parts.netloc)
        asked = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:  # whose words quote the address, and so the password
        raise BadAddress(f"it is not spelt as an address; {_ESCAPES}") from None
    schema = dict(asked).get("schema", _DEFAULT_SCHEMA)
    if not _SCHEMA.match(schema) or schema.startswith("pg_"):
        raise BadAddress(f"schema {schema!r} is not a name of small letters, digits and _")
    if parts.fragment:
        raise BadAddress("it has a # in it; write %23")
    rest = urlencode([(name, value) for name, value in asked if name != "schema"])
    return PostgresAddress(urlunsplit(parts._replace(query=rest)), schema)


def _check_host(given: str, netloc: str) -> None:
    """Refuse what libpq would read differently: its complaint would quote the password."""
    if given.count("@") > netloc.count("@") or netloc.count("@") > 1:
        raise BadAddress(f"it has an @ that does not stand before the host; {_ESCAPES}")
    if _BAD_ESCAPE.search(given):
        raise BadAddress("it has a % that two hexadecimal digits do not follow; write %25")
    if not all(_HOST.match(host) for host in netloc.rpartition("@")[2].split(",")):
        raise BadAddress("the port after its host is not a number")


def is_same(one: Place, other: Place) -> bool:
    """Tell whether two places are one store, as far as their spelling shows it."""
    if isinstance(one, Path) and isinstance(other, Path):
        return one.resolve() == other.resolve()
    return one == other


def place_of(given: Path | str | PostgresAddress) -> Place:
    """Say where a store is, from the text that a person gave."""
    if isinstance(given, str) and is_address(given):
        return parse_address(given)
    return given if isinstance(given, PostgresAddress) else Path(given)

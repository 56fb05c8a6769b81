"""Where a server is."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from recollect.errors import InvalidRecord


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is: an http or https URL, taken apart."""

    scheme: str
    host: str
    port: int | None
    path: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Take a URL apart; InvalidRecord where it is none that could be asked."""
        problem = url_problem(url)
        if problem:
            raise InvalidRecord("url", problem)
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port, parts.path.rstrip("/"))


def url_problem(url: str) -> str:
    """Say what is wrong with the address of a server; empty if nothing is."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"{url!r} is no URL ({error})"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"{url!r} must begin with http:// or https:// and name a host"
    if parts.username or parts.password:
        return "must not hold a password: give the name of an environment variable instead"
    if parts.query or parts.fragment or port == 0:
        return f"{url!r} must end with its host, port or path"
    return ""

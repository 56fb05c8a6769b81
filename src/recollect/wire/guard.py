"""Who may ask: checks on every request, whatever its method, before anything of it is read.

A server on the loopback address is not private: a web page in a browser on this machine can send it
requests, and reads the answers once somebody points a name of his own at 127.0.0.1 (DNS rebinding).
Hence the name in Host must be one of ours, a page must be of the same origin, and a token must
be known.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from recollect.errors import BadRequest

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_BEARER = "bearer "


class Headers(Protocol):
    """The headers of a request, as the standard library's parser gives them."""

    def get_all(self, name: str, failobj: list[str]) -> list[str]:
        """All values of a header, in order; `failobj` where it is absent."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The names a server answers to, and the token it wants (None: none).

    `check` raises BadRequest: 403 for a foreign name or page, 401 without the token.
    """

    token: str | None = None
    names: tuple[str, ...] = LOOPBACK_NAMES

    def check(self, headers: Headers) -> None:
        """Refuse a request that does not come from where it should."""
        hosts = _texts(headers, "Host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self.names:
            raise BadRequest("Host", "is not a name of this server", 403)
        origins = _texts(headers, "Origin")
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            raise BadRequest("Origin", "pages of another origin are not answered", 403)
        if self.token is not None and not self._knows(_texts(headers, "Authorization")):
            why = "this server wants its token, as Authorization: Bearer TOKEN"
            raise BadRequest("Authorization", why, 401)

    def _knows(self, given: Sequence[str]) -> bool:
        if len(given) != 1 or not given[0].lower().startswith(_BEARER):
            return False
        offered = given[0][len(_BEARER) :].strip().encode("utf-8", "surrogateescape")
        # In constant time: how long a refusal takes must not tell how much was right.
        return hmac.compare_digest(offered, (self.token or "").encode())


def host_name(host: str) -> str:
    """Take the port off a Host header: `localhost` of `LocalHost:8000`, `[::1]` of `[::1]:80`."""
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isdecimal() else host.strip().lower()


def _texts(headers: Headers, name: str) -> list[str]:
    """Give all values of a header as text: of odd bytes the parser makes something else."""
    return [str(value) for value in headers.get_all(name, [])]

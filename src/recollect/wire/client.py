"""Asking a server for JSON: one deadline for all of it, no redirects, nothing unbounded."""

from __future__ import annotations

import http.client
import json
import time

from recollect.canonical import Json, strict_json
from recollect.wire.address import Address

_CHUNK = 65536


class RequestFailed(Exception):
    """There is no answer; `retry` says whether asking again may help.

    `said` is the beginning of what came with a refusal.
    """

    def __init__(self, reason: str, retry: bool, data: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry = retry
        self.said = data[:300].decode(errors="replace")


def post_json(
    address: Address,
    call: str,
    document: dict[str, Json],
    *,
    token: str = "",
    seconds: float = 5.0,
    most_bytes: int = 2**20,
) -> Json:
    """Post a document to `call` below an address, and give what is answered.

    RequestFailed where that does not come to JSON of at most `most_bytes` within `seconds`. A
    redirect is no answer: it would carry the token elsewhere.
    """
    body = json.dumps(document).encode()
    return _ask(address, "POST", call, body, token, seconds, most_bytes)


def get_json(
    address: Address,
    call: str,
    *,
    token: str = "",
    seconds: float = 5.0,
    most_bytes: int = 2**20,
) -> Json:
    """Get what a server says at `call` below an address; fails as `post_json` does."""
    return _ask(address, "GET", call, None, token, seconds, most_bytes)


def _ask(
    address: Address,
    method: str,
    call: str,
    body: bytes | None,
    token: str,
    seconds: float,
    most_bytes: int,
) -> Json:
    deadline = time.monotonic() + seconds
    headers = {"Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    if token:
        headers["Authorization"] = f"Bearer {token}"
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=seconds)
    try:
        connection.request(method, f"{address.path}/{call}", body, headers)
        # Read to its end it still holds the socket: closing the connection alone does not do.
        with connection.getresponse() as answer:
            data = _read(connection, answer, deadline, most_bytes)
    except (OSError, http.client.HTTPException) as error:
        why = str(error) or type(error).__name__
        raise RequestFailed(f"the server cannot be reached ({why})", retry=True) from error
    except ValueError:  # its text may quote a header, and with it the token
        why = "its address or token holds characters that HTTP does not take"
        raise RequestFailed(f"the request cannot be made: {why}", retry=False) from None
    finally:
        connection.close()
    if answer.status != 200:
        busy = answer.status in (408, 425, 429) or answer.status >= 500
        raise RequestFailed(f"the server answered {answer.status}", retry=busy, data=data)
    try:
        return strict_json(data)
    except ValueError as error:
        raise RequestFailed("the server's answer is not JSON", retry=False) from error


def _read(
    connection: http.client.HTTPConnection,
    answer: http.client.HTTPResponse,
    deadline: float,
    most: int,
) -> bytes:
    """Read an answer to its end; a limit on each read alone would let it drip for ever."""
    data = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        if connection.sock is not None:  # already let go of where the answer closes it
            connection.sock.settimeout(left)
        piece = answer.read1(_CHUNK)
        if not piece:
            break
        data += piece
        if len(data) > most:
            raise RequestFailed(f"the server answered more than {most:,} bytes", retry=False)
    declared = answer.headers.get("Content-Length", "")
    if declared.isdecimal() and len(data) < int(declared):  # read1 does not tell
        raise http.client.IncompleteRead(bytes(data), int(declared) - len(data))
    return bytes(data)

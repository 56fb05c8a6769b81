"""Asking a server for JSON: one deadline for all of it, no redirects, nothing unbounded."""

from __future__ import annotations

import http.client
import json
import time

from recollect.canonical import Json, strict_json
from recollect.wire.address import Address

_CHUNK = 65536


class RequestFailed(Exception):
    """There is no answer; `retry` says whether asking again may help."""

    def __init__(self, reason: str, retry: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry = retry


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
    deadline = time.monotonic() + seconds
    body = json.dumps(document).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=seconds)
    try:
        connection.request("POST", f"{address.path}/{call}", body, headers)
        answer = connection.getresponse()
        data = _read(connection, answer, deadline, most_bytes)
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        why = str(error) or type(error).__name__
        raise RequestFailed(f"the server cannot be reached ({why})", retry=True) from error
    finally:
        connection.close()
    if answer.status != 200:
        busy = answer.status in (408, 425, 429) or answer.status >= 500
        raise RequestFailed(f"the server answered {answer.status}", retry=busy)
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

"""A service of notes on a free port, and plain requests to it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recollect.notes.service.calls import RULES, NoteService, ServiceRules
from recollect.notes.service.server import NoteServer
from recollect.notes.store_bank import StoreBank
from recollect.store import open_reader, open_store
from recollect.wire.guard import Guard
from recollect.wire.server import LIMITS, ServerLimits

TOKEN = "a-token-for-tests-only"


@contextmanager
def served(
    path: Path,
    rules: ServiceRules = RULES,
    token: str | None = TOKEN,
    limits: ServerLimits = LIMITS,
    read_only: bool = False,
) -> Iterator[NoteServer]:
    with open_reader(path) if read_only else open_store(path) as store:
        server = NoteServer(
            NoteService(StoreBank(store), rules), ("127.0.0.1", 0), Guard(token), limits
        )
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.close()
            thread.join()


def ask(
    server: NoteServer,
    call: str,
    body: Any,
    *,
    method: str = "POST",
    headers: Mapping[str, str | None] | None = None,
) -> tuple[int, dict[str, Any]]:
    """Send one request; `body` is JSON to be, or bytes as they are. None takes a header out."""
    port = server.server_address[1]
    given: dict[str, str | None] = {
        "Host": f"127.0.0.1:{port}",
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        **(headers or {}),
    }
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.putrequest(method, f"/{call}", skip_host=True, skip_accept_encoding=True)
        given.setdefault("Content-Length", str(len(data)))
        for name, value in given.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(text) if text else {}
    finally:
        connection.close()


def good(server: NoteServer, call: str, **body: Any) -> dict[str, Any]:
    """Make a call that has to succeed, and give its metadata with its answer."""
    status, found = ask(server, call, body)
    assert (status, found["success"]) == (200, True), found
    metadata = found["metadata"]
    assert isinstance(metadata, dict)
    return {"answer": found["answer"], **metadata}

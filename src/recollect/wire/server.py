"""A server that takes and gives JSON: guarded, bounded in bytes, time and connections.

A room that serves something subclasses `JsonServer` and writes `answer`. Whatever goes wrong with a
request is told to its sender as JSON, and to nobody else.
"""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from recollect.canonical import Json, strict_json
from recollect.errors import BadRequest, CannotListen, RecollectError
from recollect.wire.connection import DeadlineReader
from recollect.wire.guard import Guard

Document: TypeAlias = dict[str, Json]

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    b"Connection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds on what one client can take: bytes of a body, seconds of a request, connections."""

    body_bytes: int = 16 * 2**20
    seconds: float = 30.0
    connections: int = 2048


LIMITS = ServerLimits()


@dataclass(frozen=True, slots=True)
class Call:
    """A request that passed the guard; only a POST has a body."""

    method: str
    path: str
    body: Json


class JsonServer(ThreadingHTTPServer, ABC):
    """Answers each connection in a thread of its own; port 0 takes a free one.

    CannotListen where the address cannot be had.
    `close` stops as it should: no new connections, requests that are being answered are finished.
    """

    daemon_threads = True
    request_queue_size = 4096  # a burst waits in line; the kernel may allow less

    def __init__(
        self, address: tuple[str, int], guard: Guard, limits: ServerLimits = LIMITS
    ) -> None:
        try:
            super().__init__(address, JsonHandler)
        except OSError as error:
            raise CannotListen(*address, error.strerror or str(error)) from error
        except ValueError as error:  # no name of a machine
            raise CannotListen(*address, str(error)) from error
        self.guard = guard
        self.limits = limits
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        self._busy = 0
        self._serving = False

    @abstractmethod
    def answer(self, call: Call) -> Document:
        """Answer a request; BadRequest, or any failure known by name, is told to the client."""

    def problem(self, what: str, member: str) -> Document:
        """Spell a failure as the document that the client gets; `member` is to blame."""
        return {"error": {"message": what, "member": member or None}}

    @property
    def url(self) -> str:
        """The base URL to give to a client."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def serve_forever(self, poll_interval: float = 0.05) -> None:
        """Serve until `close`."""
        self._serving = True
        super().serve_forever(poll_interval)

    def close(self, seconds: float = 10.0) -> None:
        """Stop, and wait this long for what is being answered. Not from the serving thread."""
        if self._serving:
            self.shutdown()
        self.server_close()
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, seconds)
            for connection in self._open:  # idle ones: nobody is owed an answer
                _hang_up(connection)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection, and count it."""
        connection, address = super().get_request()
        with self._changed:
            self._open.add(connection)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection its thread, or turn it away where there are too many."""
        if len(self._open) > self.limits.connections:
            with suppress(OSError):  # it went away by itself
                request.settimeout(1.0)
                request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection, and forget it."""
        with self._changed:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep the terminal for what matters: a connection that broke is its client's business."""

    def begin(self) -> None:
        """Count a request that is being answered."""
        with self._changed:
            self._busy += 1

    def end(self) -> None:
        """Count it off."""
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()


class JsonHandler(BaseHTTPRequestHandler):
    """One connection, request after request."""

    protocol_version = "HTTP/1.1"
    server_version = "recollect"
    sys_version = ""
    wbufsize = -1  # headers and body leave together
    server: JsonServer

    def setup(self) -> None:
        """Read with a deadline."""
        super().setup()
        self._reader = DeadlineReader(self.connection, self.server.limits.seconds)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Give each request its own time."""
        self._reader.restart()
        super().handle_one_request()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for what matters."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is not even HTTP as everything else: with JSON."""
        self.close_connection = True
        self.request_version = self.protocol_version  # else it answers without headers
        self._send(code, self.server.problem(message or f"error {code}", "request"))

    def do_GET(self) -> None:
        """Answer one request."""
        self.server.begin()
        try:
            self._answer()
        finally:
            self.server.end()

    # Every method passes the guard first, also those that no path has.
    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the library's names
    do_HEAD = do_OPTIONS = do_TRACE = do_CONNECT = do_GET  # noqa: N815

    def _answer(self) -> None:
        status = 200
        try:
            self.server.guard.check(self.headers)
            document = self.server.answer(Call(self.command, self.path, self._body()))
        except BadRequest as error:
            status, document = error.status, self.server.problem(error.what, error.member)
            self.close_connection |= status in (401, 403)
        except TimeoutError:
            self.close_connection = True
            status, document = 408, self.server.problem("The request took too long.", "body")
        except RecollectError as error:
            what = f"{error.what} {error.hint}".strip()
            status, document = 500, self.server.problem(what, "")
        except OSError:  # the client went away while it sent its request
            self.close_connection = True
            return
        except Exception as error:  # a web request: one of the four fault boundaries
            what = f"{type(error).__name__}: {error}"
            status, document = 500, self.server.problem(what, "")
        self._send(status, document)

    def _body(self) -> Json:
        """Read the JSON of a request that has some. What is refused here is not read at all."""
        if self.command != "POST":
            self._refuse_body()
            return None
        size = self._size()
        kind = (self.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":
            # Also because a form on any web page could send the other kinds without asking.
            self.close_connection = True
            raise BadRequest("Content-Type", "must be application/json", 415)
        data = self.rfile.read(size)
        if len(data) < size:
            self.close_connection = True
            raise BadRequest("body", f"ended after {len(data):,} of {size:,} bytes")
        try:
            return strict_json(data)
        except (ValueError, RecursionError) as error:
            raise BadRequest("body", f"is not JSON ({error})") from error

    def _size(self) -> int:
        sizes = self.headers.get_all("Content-Length", [])
        plain = len(sizes) == 1 and sizes[0].isascii() and sizes[0].isdecimal()
        if not plain or self.headers.get("Transfer-Encoding") is not None:
            self.close_connection = True
            raise BadRequest("Content-Length", "must say how long the body is", 411)
        most = self.server.limits.body_bytes
        if len(sizes[0]) > 18 or int(sizes[0]) > most:
            self.close_connection = True
            raise BadRequest("Content-Length", f"must be at most {most:,} bytes", 413)
        return int(sizes[0])

    def _refuse_body(self) -> None:
        if self.headers.get("Content-Length") not in (None, "0") or self.headers.get(
            "Transfer-Encoding"
        ):
            self.close_connection = True
            raise BadRequest("body", f"{self.command} has none")

    def _send(self, status: int, document: Document) -> None:
        text = json.dumps(document, allow_nan=False).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)
            self.wfile.flush()
            if self.close_connection:
                self._linger()
        except OSError:  # the client does not want its answer any more
            self.close_connection = True

    def _linger(self) -> None:
        """Let a client read why it was refused: unread bytes would make the kernel reset it."""
        self.connection.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + min(1.0, self.server.limits.seconds)
        while time.monotonic() < deadline:
            self.connection.settimeout(max(0.01, deadline - time.monotonic()))
            if not self.connection.recv(65536):
                return


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it went first
        connection.shutdown(socket.SHUT_RDWR)

"""The client of JSON over HTTP, against a server that answers, refuses, drips and hangs up."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from recollect.wire.address import Address
from recollect.wire.client import RequestFailed, get_json, post_json

Answer = Callable[[BaseHTTPRequestHandler], None]


def reply(status: int, data: bytes, *headers: tuple[str, str], length: int | None = None) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in headers:
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


@contextmanager
def serving(answer: Answer) -> Iterator[Address]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield Address.parse(f"http://127.0.0.1:{server.server_port}/below")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def echo(handler: BaseHTTPRequestHandler) -> None:
    body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    names = ("Authorization", "Content-Type", "Accept")
    told = {
        "method": handler.command,
        "path": handler.path,
        "body": body.decode(),
        **{name: handler.headers.get(name) for name in names},
    }
    reply(200, json.dumps(told).encode())(handler)


def test_what_is_posted() -> None:
    with serving(echo) as address:
        assert post_json(address, "v1/say?loud=1", {"a": [1, "ü"]}, token="secret") == {
            "method": "POST",
            "path": "/below/v1/say?loud=1",
            "body": '{"a": [1, "\\u00fc"]}',
            "Authorization": "Bearer secret",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }


def test_getting_sends_no_body() -> None:
    with serving(echo) as address:
        assert get_json(address, "v1/models") == {
            "method": "GET",
            "path": "/below/v1/models",
            "body": "",
            "Authorization": None,
            "Content-Type": None,
            "Accept": "application/json",
        }


def failure(answer: Answer, *, seconds: float = 5.0, most: int = 1000) -> RequestFailed:
    with serving(answer) as address, pytest.raises(RequestFailed) as caught:
        get_json(address, "x", seconds=seconds, most_bytes=most)
    return caught.value


@pytest.mark.parametrize(
    ("status", "retry"), [(400, False), (404, False), (408, True), (429, True), (503, True)]
)
def test_a_refusal_says_what_came_with_it(status: int, retry: bool) -> None:
    found = failure(reply(status, b"because \xff" + b"x" * 400))
    assert found.reason == f"the server answered {status}"
    assert found.retry is retry
    assert found.said.startswith("because \ufffd")
    assert len(found.said) == 300


def test_a_redirect_is_no_answer() -> None:
    asked = []

    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        reply(302, b"", ("Location", "/below/other"))(handler)

    assert failure(elsewhere).retry is False
    assert asked == ["/below/x"]


@pytest.mark.parametrize("data", [b"", b"<html>", b"[NaN]", b"\xff"])
def test_what_is_not_json(data: bytes) -> None:
    found = failure(reply(200, data))
    assert (found.reason, found.retry) == ("the server's answer is not JSON", False)


def test_too_much_of_it() -> None:
    found = failure(reply(200, b" " * 2000))
    assert (found.reason, found.retry) == ("the server answered more than 1,000 bytes", False)


def test_an_answer_that_breaks_off() -> None:
    found = failure(reply(200, b"[1", length=9))
    assert "cannot be reached" in found.reason
    assert found.retry


def test_an_answer_that_drips_is_given_up_in_time() -> None:
    done = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not done.wait(0.02):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return

    try:
        found = failure(drip, seconds=0.3)
    finally:
        done.set()
    assert found.retry


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = Address.parse(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(RequestFailed, match="cannot be reached") as caught:
            post_json(address, "x", {})
    assert caught.value.retry
    assert caught.value.said == ""

"""Asking a service: tries, pauses, giving up for a while, and nothing that it can do to us."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from recollect.errors import BadRequest, InvalidRecord
from recollect.notes.remote.breaker import Breaker
from recollect.notes.remote.client import OPEN, MemoryClient, RemotePatience
from recollect.wire.address import Address, url_problem
from recollect.wire.server import Call

from .canned import canned


def client(url: str, pauses: list[float] | None = None, **patience: Any) -> MemoryClient:
    kept = RemotePatience(**{"seconds": 20.0, **patience})
    return MemoryClient(Address.parse(url), "", kept, (pauses if pauses is not None else []).append)


def test_a_breaker_opens_after_failures_in_a_row_and_tries_again_later() -> None:
    now = [0.0]
    breaker = Breaker(2, 10.0, lambda: now[0])
    breaker.failed()
    breaker.succeeded()
    breaker.failed()
    assert breaker.allows  # never two in a row
    breaker.failed()
    assert not breaker.allows
    now[0] = 10.0
    assert breaker.allows
    breaker.failed()  # the one try failed: it waits anew
    assert not breaker.allows
    now[0] = 20.0
    breaker.succeeded()
    assert breaker.allows


def test_a_busy_service_is_asked_again_with_growing_pauses() -> None:
    def say(call: Call) -> dict[str, Any]:
        if len(server.calls) < 3:
            raise BadRequest("load", "come back", 503)
        return {"success": True, "body": call.body}

    pauses: list[float] = []
    with canned(say) as server:
        reply = client(server.url, pauses, tries=4).call("x", {"a": 1})
    assert (reply.failed, reply.tries, reply.answer) == ("", 3, {"success": True, "body": {"a": 1}})
    assert 0.1 <= pauses[0] <= 0.2 <= pauses[1] <= 0.4


def test_a_service_that_refuses_is_not_asked_again() -> None:
    def say(call: Call) -> dict[str, Any]:
        raise BadRequest("query", "is wrong")

    with canned(say) as server:
        reply = client(server.url, tries=4).call("x", {})
        assert (reply.tries, reply.failed) == (1, "the server answered 400")
        assert len(server.calls) == 1


def test_a_service_that_is_down_is_left_alone_after_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    asking = client(f"http://127.0.0.1:{port}", tries=2, failures=2, rest=1000)
    replies = [asking.call("x", {}) for _ in range(4)]
    assert [reply.tries for reply in replies] == [2, 2, 0, 0]
    assert "cannot be reached" in replies[0].failed
    assert replies[2].failed == OPEN


def raw_answer(data: bytes, hold: float = 0.0) -> tuple[str, threading.Thread]:
    """Answer one connection with bytes as they are, and keep it open a while."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listening, listening.accept()[0] as connection:
            asked = b""
            while not asked.endswith(b"\r\n\r\n{}"):  # what stays unread would reset the answer
                asked += connection.recv(65536)
            connection.sendall(data)
            time.sleep(hold)

    thread = threading.Thread(target=serve)
    thread.start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}", thread


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n",
            "302",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnope", "not JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "reached"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (2**20 + 1), "more than"),
        (b"what?\r\n\r\n", "reached"),
        (b"", "reached"),
    ],
)
def test_a_strange_answer_is_a_failure_and_nothing_more(data: bytes, why: str) -> None:
    url, thread = raw_answer(data)
    reply = client(url, tries=1).call("x", {})
    thread.join()
    assert why in reply.failed


def test_an_answer_that_does_not_come_is_not_waited_for() -> None:
    url, thread = raw_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", hold=2.0)
    started = time.monotonic()
    reply = client(url, tries=1, seconds=0.3).call("x", {})
    assert "reached" in reply.failed
    assert time.monotonic() - started < 2.0 or reply.seconds < 2.0
    thread.join()


@pytest.mark.parametrize(
    "url", ["", "localhost:8002", "ftp://x", "http://", "http://a:b@c", "http://x?y", "http://x:0"]
)
def test_an_address_that_cannot_be_asked_is_refused(url: str) -> None:
    assert url_problem(url)
    with pytest.raises(InvalidRecord):
        Address.parse(url)


def test_an_address_may_have_a_path() -> None:
    assert Address.parse("https://h.example:1/a/") == Address("https", "h.example", 1, "/a")

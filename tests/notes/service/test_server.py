"""The service on its real HTTP surface: who is answered, what is refused, crowds, restarts."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.notes.note import Draft
from recollect.notes.service.server import NoteServer
from recollect.notes.store_bank import StoreBank
from recollect.store import open_store
from recollect.wire.server import ServerLimits

from .serving import TOKEN, ask, good, served

CANCEL = Draft("Look the booking up, then cancel it.", "cancel a booking")
QUESTION = {"query": "cancel my booking", "workspace_id": "default"}
RETRIEVE = "retrieve_task_memory"


def make_store(path: Path) -> Path:
    with open_store(path) as store:
        StoreBank(store).add([CANCEL])
    return path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NoteServer]:
    with served(make_store(tmp_path / "bank.db")) as server:
        yield server


def test_only_the_legal_rows_of_the_matrix_succeed(server: NoteServer) -> None:
    """5 methods x 2 hosts x 2 origins x 2 tokens = 40 requests."""
    port = server.server_address[1]
    hosts = {f"127.0.0.1:{port}": True, f"evil.example:{port}": False}
    origins = {None: True, "http://evil.example": False}
    tokens = {f"Bearer {TOKEN}": True, "Bearer another-token-of-the-length": False}
    methods = {"POST": True, "GET": False, "PUT": False, "DELETE": False, "OPTIONS": False}
    matrix = list(
        itertools.product(methods.items(), hosts.items(), origins.items(), tokens.items())
    )
    assert len(matrix) == 40
    succeeded = []
    for (method, m), (host, h), (origin, o), (token, t) in matrix:
        headers = {"Host": host, "Origin": origin, "Authorization": token}
        body = QUESTION if method == "POST" else b""
        status, found = ask(server, RETRIEVE, body, method=method, headers=headers)
        legal = m and h and o and t
        assert (status == 200) is legal, (method, host, origin, token, status)
        assert found["success"] is legal
        if not legal:
            assert found["metadata"] == {}
            assert status == (403 if not (h and o) else 401 if not t else 405)
        else:
            succeeded.append((method, host, origin, token))
    assert succeeded == [("POST", f"127.0.0.1:{port}", None, f"Bearer {TOKEN}")]


@pytest.mark.parametrize(
    "host",
    ["", "127.0.0.1.evil.example", "localhost.evil.example:80", "127.0.0.1@evil", "0.0.0.0", None],
)
def test_names_that_are_not_its_own_are_refused(server: NoteServer, host: str | None) -> None:
    assert ask(server, RETRIEVE, QUESTION, headers={"Host": host})[0] == 403


@pytest.mark.parametrize("origin", ["null", "file://", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_pages_of_other_origins_are_refused(server: NoteServer, origin: str) -> None:
    assert ask(server, RETRIEVE, QUESTION, headers={"Origin": origin})[0] == 403


def test_its_own_origin_and_name_are_fine(server: NoteServer) -> None:
    port = server.server_address[1]
    mine = {"Host": f"LocalHost:{port}", "Origin": f"http://localhost:{port}"}
    assert ask(server, RETRIEVE, QUESTION, headers=mine)[0] == 200


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN])
def test_a_request_without_the_token_is_refused(server: NoteServer, given: str | None) -> None:
    status, found = ask(server, RETRIEVE, QUESTION, headers={"Authorization": given})
    assert status == 401
    assert TOKEN not in json.dumps(found)


@pytest.mark.parametrize(
    ("body", "member"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b'{"query": NaN}', "body"),
        (b"\xff\xfe", "body"),
        (b"[" * 100_000, "body"),
        ([], "body"),
        ("text", "body"),
        ({}, "query"),
        ({"query": 3}, "query"),
        ({"query": "\ud800"}, "query"),
        ({"query": "a", "top_k": 0}, "top_k"),
        ({"query": "a", "top_k": 10**9}, "top_k"),
        ({"query": "a", "top_k": True}, "top_k"),
        ({"query": "a", "top_k": "3"}, "top_k"),
        ({"query": "a", "workspace_id": ""}, "workspace_id"),
        ({"query": "a", "workspace_id": ["x"]}, "workspace_id"),
    ],
)
def test_a_malformed_body_is_told_apart(server: NoteServer, body: object, member: str) -> None:
    status, found = ask(server, RETRIEVE, body)
    assert (status, found["success"], found["error"]["member"]) == (400, False, member)
    assert ask(server, RETRIEVE, QUESTION)[0] == 200  # and nothing is broken by it


def test_what_is_too_long_or_of_no_known_length_is_not_read(server: NoteServer) -> None:
    for length in (str(16 * 2**20 + 1), "9" * 30):
        status, found = ask(server, RETRIEVE, b"", headers={"Content-Length": length})
        assert (status, found["error"]["member"]) == (413, "Content-Length")
    for headers in ({"Content-Length": None}, {"Content-Length": "-1"}, {"Content-Length": "1e3"}):
        assert ask(server, RETRIEVE, b"", headers=headers)[0] == 411
    chunked = {"Transfer-Encoding": "chunked"}
    assert ask(server, RETRIEVE, b"{}", headers=chunked)[0] == 411
    assert ask(server, RETRIEVE, QUESTION, headers={"Content-Type": "text/plain"})[0] == 415
    assert ask(server, RETRIEVE, QUESTION)[0] == 200


def test_a_body_that_is_too_long_gets_its_answer_all_the_same(tmp_path: Path) -> None:
    limits = ServerLimits(body_bytes=1000)
    with served(make_store(tmp_path / "bank.db"), limits=limits) as server:
        assert ask(server, RETRIEVE, {"query": "x" * 200_000})[0] == 413
        assert ask(server, RETRIEVE, QUESTION)[0] == 200


def test_there_is_nothing_elsewhere(server: NoteServer) -> None:
    for path in ("", "retrieve_task_memory/", "../etc/passwd", "retrieve_task_memory?x=1"):
        assert ask(server, path, QUESTION)[0] == 404
    assert ask(server, "health", b"", method="GET") == (200, {"success": True})


def test_what_is_not_http_gets_json_too(server: NoteServer) -> None:
    with socket.create_connection(server.server_address[:2], timeout=30) as raw:
        raw.sendall(b"\x16\x03\x01\x02\x00 what is this\r\n\r\n")
        answer = raw.makefile("rb").read()
    assert b"400" in answer.split(b"\r\n")[0]
    assert b'"success": false' in answer


def test_a_request_that_drips_is_cut_off(tmp_path: Path) -> None:
    limits = ServerLimits(seconds=0.5)
    with (
        served(make_store(tmp_path / "bank.db"), limits=limits) as server,
        socket.create_connection(server.server_address[:2], timeout=30) as raw,
    ):
        started = time.monotonic()
        head = f"POST /{RETRIEVE} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        raw.sendall(
            head.encode() + b"Content-Type: application/json\r\nContent-Length: 999\r\n\r\n"
        )
        raw.settimeout(0.1)
        answer = b""
        while time.monotonic() - started < 20 and not answer:
            try:
                raw.sendall(b" ")
                answer = raw.recv(4096)
            except TimeoutError:
                continue
        assert b"408" in answer.split(b"\r\n")[0]


def test_too_many_connections_are_turned_away(tmp_path: Path) -> None:
    limits = ServerLimits(connections=2, seconds=5)
    with served(make_store(tmp_path / "bank.db"), limits=limits) as server:
        idle = [socket.create_connection(server.server_address[:2], timeout=30) for _ in range(2)]
        with socket.create_connection(server.server_address[:2], timeout=30) as third:
            assert third.makefile("rb").read().startswith(b"HTTP/1.1 503")
        for each in idle:
            each.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                assert ask(server, RETRIEVE, QUESTION)[0] == 200
                break
            except (AssertionError, OSError, ValueError, TypeError):
                time.sleep(0.05)
        else:
            pytest.fail("it never recovered")


def test_a_thousand_at_once_are_all_answered(server: NoteServer) -> None:
    ready, start = threading.Barrier(1001), threading.Event()
    found: list[object] = []

    def one() -> None:
        ready.wait()
        start.wait()
        try:
            found.append(ask(server, RETRIEVE, QUESTION))
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=one) for _ in range(1000)]
    for thread in threads:
        thread.start()
    ready.wait()
    start.set()
    for thread in threads:
        thread.join()
    expected = ask(server, RETRIEVE, QUESTION)
    assert expected[1]["answer"] == CANCEL.content
    assert len(found) == 1000
    assert all(each == expected for each in found), [e for e in found if e != expected][:3]


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    path = make_store(tmp_path / "bank.db")
    sent = [{"role": "user", "content": "refund me"}, {"role": "assistant", "content": "refund(1)"}]
    with served(path) as server:
        added = good(server, "summary_task_memory", trajectories=[{"messages": sent, "score": 1}])
        (memory,) = added["memory_list"]
        good(server, "record_task_memory", memory_dicts=[memory], update_utility=True)
        before = good(server, "vector_store", action="list")
    with served(path) as server:
        assert good(server, "vector_store", action="list") == before
        assert len(before["action_result"]) == 2
        assert (
            good(server, RETRIEVE, query="refund")["memory_list"][0]["content"] == memory["content"]
        )


def test_stopping_lets_a_request_finish(tmp_path: Path) -> None:
    with served(make_store(tmp_path / "bank.db")) as server:
        answer, entered, found = server.answer, threading.Event(), []

        def slow(call: object) -> object:
            entered.set()
            time.sleep(0.5)
            return answer(call)  # type: ignore[arg-type]

        server.answer = slow  # type: ignore[method-assign,assignment]
        thread = threading.Thread(target=lambda: found.append(ask(server, RETRIEVE, QUESTION)))
        thread.start()
        entered.wait(30)
        server.close()
        thread.join()
        assert found[0][0] == 200
        with pytest.raises(OSError, match="refused"):
            ask(server, RETRIEVE, QUESTION)


def test_a_reader_gives_out_and_changes_nothing(tmp_path: Path) -> None:
    path = make_store(tmp_path / "bank.db")
    with open_store(path), served(path, read_only=True) as server:  # a run is writing meanwhile
        (memory,) = good(server, RETRIEVE, **QUESTION)["memory_list"]
        for call, body in (
            ("record_task_memory", {"memory_dicts": [memory]}),
            ("vector_store", {"action": "delete"}),
        ):
            status, found = ask(server, call, body)
            assert (status, found["success"]) == (403, False)
            assert "read" in found["error"]["message"]

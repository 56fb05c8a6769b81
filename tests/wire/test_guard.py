"""The guard: names with and without ports, headers that come twice, tokens of any bytes."""

from __future__ import annotations

from email.message import Message

import pytest

from recollect.errors import BadRequest
from recollect.wire.guard import Guard, host_name


def headers(*pairs: tuple[str, str]) -> Message:
    found = Message()
    for name, value in pairs:
        found[name] = value
    return found


def status(guard: Guard, *pairs: tuple[str, str]) -> int:
    try:
        guard.check(headers(*pairs))
    except BadRequest as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("LocalHost:80", "localhost"),
        ("localhost", "localhost"),
        ("[::1]:8000", "[::1]"),
        ("[::1]", "[::1]"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_the_port_is_taken_off(host: str, name: str) -> None:
    assert host_name(host) == name


def test_a_header_that_comes_twice_does_not_pass() -> None:
    guard, host, token = Guard("secret"), ("Host", "localhost"), ("Authorization", "Bearer secret")
    assert status(guard, host, token) == 200
    assert status(guard, host, ("Host", "evil"), token) == 403
    assert status(guard, host, host, token) == 403
    assert status(guard, host, token, token) == 401
    mine = ("Origin", "http://localhost")
    assert status(guard, host, token, mine) == 200
    assert status(guard, host, token, mine, ("Origin", "http://evil")) == 403


def test_tokens_are_compared_whole() -> None:
    guard, host = Guard("secret"), ("Host", "127.0.0.1:1")
    for offered in ("Bearer secre", "Bearer secrett", "Bearer SECRET", "Bearer \udcff", "secret"):
        assert status(guard, host, ("Authorization", offered)) == 401
    assert status(guard, host, ("Authorization", "bearer secret")) == 200
    assert status(Guard(None), host) == 200


def test_a_further_name_can_be_given() -> None:
    assert status(Guard(None, ("bank.local",)), ("Host", "Bank.Local:8002")) == 200
    assert status(Guard(None, ("bank.local",)), ("Host", "localhost")) == 403

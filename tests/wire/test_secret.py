"""Keys and tokens from the environment: taken as they are meant, refused without being shown."""

from __future__ import annotations

import pytest

from recollect.errors import BadSecret
from recollect.wire.address import Address
from recollect.wire.client import RequestFailed, post_json
from recollect.wire.secret import secret

NAME = "RECOLLECT_TEST_KEY"


@pytest.mark.parametrize("given", ["sk-1234", "sk-1234\n", "sk-1234\r\n", "  sk-1234\t"])
def test_space_around_it_is_no_part_of_it(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, given)
    assert secret(NAME) == "sk-1234"


def test_unset_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    assert secret(NAME) == ""


@pytest.mark.parametrize("given", ["sk-12\n34", "sk-12\x7f34", "sk-12\u20ac34", "sk-12\u200b34"])
def test_what_no_header_takes_is_named_by_its_variable(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, given)
    with pytest.raises(BadSecret, match=NAME) as caught:
        secret(NAME)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize("token", ["sk-12\n34", "sk-12\u20ac34"])
def test_a_client_given_one_fails_without_its_text(token: str) -> None:
    with pytest.raises(RequestFailed) as caught:
        post_json(Address.parse("http://127.0.0.1:9"), "x", {}, token=token)
    assert "cannot be made" in caught.value.reason
    assert not caught.value.retry
    assert "12" not in caught.value.reason
    assert caught.value.__cause__ is None

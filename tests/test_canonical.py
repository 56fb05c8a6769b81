"""One spelling of JSON, one digest: what they accept, refuse and never confuse."""

from __future__ import annotations

import json
import math
from types import MappingProxyType

import pytest

from recollect.canonical import canonical_json, digest, is_plain_json, is_text, strict_json


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_canonical_json_sorts_keys_and_keeps_unicode() -> None:
    assert (
        canonical_json({"b": 1, "a": [1.5, None, True, "ü☃"]}) == '{"a":[1.5,null,true,"ü☃"],"b":1}'
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {"x": [math.nan]}])
def test_canonical_json_refuses_what_is_not_json(value: object) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(value)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}'])
def test_strict_json_refuses_constants_that_python_lets_through(text: str) -> None:
    assert json.loads(text) is not None
    with pytest.raises(ValueError, match="is not JSON"):
        strict_json(text)


def test_strict_json_refuses_endless_nesting_as_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        strict_json("[" * 100_000)


def test_strict_json_reads_what_canonical_json_writes() -> None:
    value = {"a": [1, 2.5, "ü\0", None, True, {"deep": []}], "big": 2**80}
    assert strict_json(canonical_json(value)) == value


def test_digest_is_32_hex_digits_and_does_not_drift() -> None:
    assert digest("task", "env", "1", "id", "") == digest("task", "env", "1", "id", "")
    assert digest("a", 1) == "484c670ce4753ed75a3cc908af49224a"


@pytest.mark.parametrize(
    ("one", "other"),
    [(("a", "bc"), ("ab", "c")), (("a",), ("a", "")), ((1,), ("1",)), (('a","b',), ("a", "b"))],
)
def test_digest_keeps_parts_apart(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> None:
    assert digest(*one) != digest(*other)


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -(2**70), 1.5, -0.0, "", "ü\0☃", [], [[1], {"a": None}], {}, nested(99)],
)
def test_plain_json_survives_a_round_trip(value: object) -> None:
    assert is_plain_json(value)
    assert json.loads(canonical_json(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        (1, 2),
        {1: "a"},
        {"a": {2: "b"}},
        {"a": (1,)},
        b"bytes",
        {1, 2},
        "\ud800",
        {"\udfff": 1},
        ["\ud83d"],
        [10**5000],  # Python refuses to print it
        {"a": MappingProxyType({"b": 1})},  # json.dumps refuses it
        nested(2000),  # json.dumps runs out of stack
    ],
)
def test_what_would_not_survive_is_not_plain(value: object) -> None:
    assert not is_plain_json(value)


@pytest.mark.parametrize(("value", "ok"), [("", True), ("a\0ü", True), ("\ud800", False)])
def test_text_can_be_written_as_utf8(value: str, ok: bool) -> None:
    assert is_text(value) is ok

"""Tool calls survive writing and reading; nothing a model may write makes reading raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.envs.base import Opening, Parameter, ToolSpec, system, user
from recollect.envs.probe import garbage
from recollect.envs.tools import (
    CLOSE,
    MAX_CALL_CHARS,
    OPEN,
    Call,
    MalformedCall,
    argument_problem,
    parse_call,
    with_signatures,
)

SEAT = ToolSpec(
    "seat",
    parameters=(
        Parameter("id"),
        Parameter("seat", choices=("aisle", "window")),
        Parameter("count", "integer", required=False),
        Parameter("fee", "number", required=False),
        Parameter("on", "boolean", required=False),
    ),
)
names = st.from_regex(r"[a-z_][a-z0-9_]{0,20}", fullmatch=True)
values = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<")),
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(names, st.dictionaries(names, values, max_size=4))
def test_reading_gives_back_what_was_written(name, arguments):
    assert parse_call(Call(name, arguments).text()) == Call(name, arguments)


@given(st.text())
def test_any_text_can_be_read(text):
    assert isinstance(parse_call(text), Call | MalformedCall | None)
    assert isinstance(parse_call(f"{OPEN}{text}{CLOSE}"), Call | MalformedCall)


def test_no_garbage_is_a_call_and_no_problem_quotes_it():
    for text in garbage(()):
        found = parse_call(text)
        if isinstance(found, MalformedCall):
            assert len(found.problem) < 80
            assert "<" not in found.problem


def test_plain_text_is_no_call():
    assert parse_call("The fee is $30, {as} <agreed>.") is None


@pytest.mark.parametrize(
    "text",
    [
        f'I think. {OPEN}{{"name":"a","arguments":{{"x":1}}}}{CLOSE} Then.',
        f'{OPEN} {{"name": "a", "arguments": {{"x": 1}}}}',
        f'{OPEN}\n{{"arguments":{{"x":1}},"name":"a","id":7}}\n{CLOSE}\n',
    ],
)
def test_thoughts_spaces_and_a_missing_end_are_forgiven(text):
    assert parse_call(text) == Call("a", {"x": 1})


def test_arguments_may_be_left_out():
    assert parse_call(f'{OPEN}{{"name":"plans"}}{CLOSE}') == Call("plans", {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (Call("a", {}).text() * 2, "one tool call per turn"),
        (f"{OPEN}{OPEN}{CLOSE}", "one tool call per turn"),
        (f"ok {CLOSE}", "never opened"),
        (f"{OPEN}not json{CLOSE}", "not valid JSON"),
        (f'{OPEN}{{"name":"a","arguments":{{"x":NaN}}}}{CLOSE}', "not valid JSON"),
        (f"{OPEN}[]{CLOSE}", "must be an object"),
        (f'{OPEN}{{"arguments":{{}}}}{CLOSE}', "needs a name"),
        (f'{OPEN}{{"name":"a b"}}{CLOSE}', "needs a name"),
        (f'{OPEN}{{"name":"a","arguments":[1]}}{CLOSE}', "arguments must be"),
        (f'{OPEN}{{"name":"a","arguments":{{"x":"\\ud800"}}}}{CLOSE}', "must be an object"),
        (OPEN + " " * (MAX_CALL_CHARS + 1) + CLOSE, "too long"),
    ],
)
def test_problems_are_named(text, problem):
    found = parse_call(text)
    assert isinstance(found, MalformedCall)
    assert problem in found.problem


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"id": "a", "seat": "aisle"}, None),
        ({"id": "a", "seat": "aisle", "count": 2, "fee": 1, "on": False}, None),
        ({"id": "a", "seat": "aisle", "fee": 1.5}, None),
        ({"id": "a"}, "missing seat"),
        ({"id": "a", "seat": "aisle", "x": 1}, "use seat(id,seat,count,fee,on)"),
        ({"id": 7, "seat": "aisle"}, "id must be string"),
        ({"id": "a", "seat": "roof"}, "seat must be aisle|window"),
        ({"id": "a", "seat": ["aisle"]}, "seat must be aisle|window"),
        ({"id": "a", "seat": "aisle", "count": True}, "count must be integer"),
        ({"id": "a", "seat": "aisle", "count": 1.0}, "count must be integer"),
        ({"id": "a", "seat": "aisle", "fee": "1"}, "fee must be number"),
        ({"id": "a", "seat": "aisle", "on": 1}, "on must be boolean"),
        ({"id": "a", "seat": "aisle", "on": None}, "on must be boolean"),
    ],
)
def test_arguments_are_checked_against_the_tool(arguments, problem):
    assert argument_problem(SEAT, arguments) == problem


def test_a_call_becomes_the_record_that_segments_carry():
    record = Call("seat", {"id": "B4K7", "count": 2}).record()
    assert (record.name, record.arguments) == ("seat", '{"id":"B4K7","count":2}')


def test_signatures_join_the_system_text_or_make_one():
    opening = Opening((system("Be kind."), user("Hi")), (SEAT,))
    first, second = with_signatures(opening)
    assert first.text.startswith("Be kind.\nTools: seat(id,seat,count,fee,on)\nCall: <tool_call>")
    assert second == user("Hi")
    made, kept = with_signatures(Opening((user("Hi"),), (SEAT,)))
    assert made.text.startswith("Tools: seat(")
    assert kept == user("Hi")
    assert with_signatures(Opening((user("Hi"),))) == (user("Hi"),)

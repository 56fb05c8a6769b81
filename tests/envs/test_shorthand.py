"""Short calls stand for whole ones."""

from __future__ import annotations

import pytest

from recollect.envs.base import Parameter, ToolSpec
from recollect.envs.shorthand import expand_call
from recollect.envs.tools import Call, MalformedCall, parse_call

TOOLS = (
    ToolSpec("plans"),
    ToolSpec(
        "set",
        parameters=(Parameter("id"), Parameter("n", "integer"), Parameter("on", "boolean")),
    ),
)


@pytest.mark.parametrize(
    ("typed", "call"),
    [
        ("/plans", Call("plans", {})),
        ("/set id=7 n=7 on=true", Call("set", {"id": "7", "n": 7, "on": True})),
        ("/set on=False", Call("set", {"on": False})),
        ("/set n=many", Call("set", {"n": "many"})),
        ("/set n=[1", Call("set", {"n": "[1"})),
        ("/set n=null", Call("set", {"n": "null"})),
        ("/set id", Call("set", {"id": ""})),
        ("/fly to=moon=now", Call("fly", {"to": "moon=now"})),
    ],
)
def test_calls_are_written_out(typed, call):
    assert parse_call(expand_call(typed, TOOLS)) == call


def test_messages_stay_and_an_empty_call_is_malformed():
    assert expand_call("Hello /plans", TOOLS) == "Hello /plans"
    assert isinstance(parse_call(expand_call("/", TOOLS)), MalformedCall)

"""The records of the contract refuse what nobody downstream could use."""

from __future__ import annotations

import pytest

from recollect.envs.base import Limits, Message, Parameter, Score, ToolSpec, Turn, tool, user
from recollect.errors import InvalidRecord
from recollect.types import SegmentKind, StopReason


@pytest.mark.parametrize("kind", [SegmentKind.ASSISTANT, SegmentKind.NOTE])
def test_an_environment_cannot_speak_for_the_agent_or_the_note_bank(kind):
    with pytest.raises(InvalidRecord, match="not system, user or tool"):
        Message(kind, "x")


def test_messages_are_valid_text():
    assert user("naïve ☃").text == "naïve ☃"
    with pytest.raises(InvalidRecord, match="lone surrogate"):
        tool("\ud800")


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), None, "1", True])
def test_rewards_are_finite_numbers(reward):
    with pytest.raises(InvalidRecord, match=r"score\.reward"):
        Score(reward, True)


def test_parts_are_finite_and_success_is_a_verdict():
    with pytest.raises(InvalidRecord, match="parts"):
        Score(1.0, True, {"x": float("nan")})
    with pytest.raises(InvalidRecord, match="success"):
        Score(1.0, 1)


@pytest.mark.parametrize("bounds", [(0, 1), (1, 0), (-1, 5), (2.5, 5)])
def test_limits_must_leave_room(bounds):
    with pytest.raises(InvalidRecord, match="limits"):
        Limits(*bounds)


def test_a_turn_is_done_exactly_when_it_says_why():
    assert not Turn((user("and?"),)).done
    assert Turn((), StopReason.TURN_LIMIT).done


def test_a_tool_describes_itself_short_and_in_full():
    spec = ToolSpec(
        "seat",
        "change the seat",
        (
            Parameter("id"),
            Parameter("seat", choices=("aisle",)),
            Parameter("n", "integer", required=False),
        ),
    )
    assert spec.signature() == "seat(id,seat,n)"
    function = spec.schema()["function"]
    assert function["name"] == "seat"
    assert function["parameters"]["required"] == ["id", "seat"]
    assert function["parameters"]["properties"]["seat"]["enum"] == ["aisle"]
    assert function["parameters"]["properties"]["n"]["type"] == "integer"

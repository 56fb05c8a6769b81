"""The parts of a trajectory refuse bad values at construction, and name the field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from factories import make_task
from recollect.errors import InvalidRecord
from recollect.types import (
    GroupId,
    NoteId,
    NoteSpan,
    Reward,
    RunId,
    Sampling,
    Segment,
    SegmentKind,
    Task,
    TaskKey,
    ToolCall,
    group_id,
    trajectory_id,
)
from recollect.validation import check_count, check_finite, check_id, check_text

USER = SegmentKind.USER
HUGE = pytest.param(10**400, id="beyond float")


def refused(make: Callable[[], object]) -> InvalidRecord:
    with pytest.raises(InvalidRecord) as caught:
        make()
    assert caught.value.field in str(caught.value)
    return caught.value


# -- tasks ---------------------------------------------------------------------------------


def test_task_key_is_32_hex_digits_and_does_not_drift() -> None:
    assert Task("desk:airline", "t0").key == "abaf9b82e3b73781780de2ccd1df9f24"


@pytest.mark.parametrize(
    "change", [{"environment": "other"}, {"id": "t1"}, {"version": "2"}, {"query": "variant"}]
)
def test_variants_of_a_task_never_share_a_key(change: dict[str, Any]) -> None:
    base: dict[str, Any] = {"environment": "desk", "id": "t0"}
    assert Task(**{**base, **change}).key != Task(**base).key


@pytest.mark.parametrize("change", [{"domain": "x"}, {"split": "test"}, {"level": 3}])
def test_labels_are_not_part_of_the_key(change: dict[str, Any]) -> None:
    assert Task("desk", "t0", **change).key == Task("desk", "t0").key


def test_domain_is_the_environment_unless_given() -> None:
    assert Task("desk:airline", "t0").domain == "desk:airline"
    assert Task("desk:airline", "t0", domain="air").domain == "air"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"environment": ""}, "environment"),
        ({"id": ""}, "id"),
        ({"environment": 5}, "environment"),
        ({"id": "\ud800"}, "id"),
        ({"version": None}, "version"),
        ({"query": b"bytes"}, "query"),
        ({"domain": "\udfff"}, "domain"),
        ({"split": 1}, "split"),
        ({"level": -1}, "level"),
        ({"level": True}, "level"),
        ({"level": 2**31}, "level"),
        ({"level": 1.0}, "level"),
    ],
)
def test_task_refuses(change: dict[str, Any], field: str) -> None:
    base: dict[str, Any] = {"environment": "desk", "id": "t0"}
    assert refused(lambda: Task(**{**base, **change})).field == field


def test_records_are_frozen() -> None:
    task = make_task(1)
    with pytest.raises(FrozenInstanceError):
        task.id = "other"  # type: ignore[misc]


# -- segments, calls, spans ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "user"}, "segments.kind"),
        ({"start": -1}, "segments.start"),
        ({"start": 0.0}, "segments.start"),
        ({"end": "9"}, "segments.end"),
        ({"end": 2**31}, "segments.end"),
        ({"text": None}, "segments.text"),
        ({"text": "\ud800"}, "segments.text"),
        ({"call_id": 3}, "segments.call_id"),
        ({"name": 3}, "segments.name"),
        ({"calls": [ToolCall("f", "{}")]}, "segments.calls"),
        ({"calls": ("f",)}, "segments.calls"),
    ],
)
def test_segment_refuses(change: dict[str, Any], field: str) -> None:
    base: dict[str, Any] = {"kind": USER, "start": 0, "end": 1}
    assert refused(lambda: Segment(**{**base, **change})).field == field


@pytest.mark.parametrize("name", ["name", "arguments", "id"])
@pytest.mark.parametrize("value", [None, 3, "\ud800"])
def test_tool_call_refuses(name: str, value: object) -> None:
    base: dict[str, Any] = {"name": "f", "arguments": "{}", "id": ""}
    assert refused(lambda: ToolCall(**{**base, name: value})).field == f"tool_calls.{name}"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"note": "no id!"}, "notes.note"),
        ({"start": -1}, "notes.start"),
        ({"end": None}, "notes.end"),
    ],
)
def test_note_span_refuses(change: dict[str, Any], field: str) -> None:
    base: dict[str, Any] = {"note": NoteId("n"), "start": 0, "end": 1}
    assert refused(lambda: NoteSpan(**{**base, **change})).field == field


# -- sampling and reward -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"temperature": float("nan")}, "sampling.temperature"),
        ({"temperature": None}, "sampling.temperature"),
        ({"temperature": -0.1}, "sampling"),
        ({"temperature": 10**400}, "sampling.temperature"),
        ({"top_p": 0.0}, "sampling"),
        ({"top_p": 1.01}, "sampling"),
        ({"top_p": "1"}, "sampling.top_p"),
        ({"top_k": -1}, "sampling.top_k"),
        ({"max_tokens": 1.5}, "sampling.max_tokens"),
    ],
)
def test_sampling_refuses(change: dict[str, Any], field: str) -> None:
    assert refused(lambda: Sampling(**change)).field == field


def test_whole_numbers_become_floats() -> None:
    assert isinstance(Sampling(temperature=1, top_p=1).temperature, float)
    reward = Reward(1, {"goal": 2})
    assert isinstance(reward.value, float)
    assert isinstance(reward.parts["goal"], float)


@pytest.mark.parametrize(
    ("value", "parts", "field"),
    [
        (float("nan"), {}, "reward"),
        (float("inf"), {}, "reward"),
        (None, {}, "reward"),
        ("1", {}, "reward"),
        (True, {}, "reward"),
        pytest.param(10**400, {}, "reward", id="beyond float"),
        (1.0, [("a", 1.0)], "reward.parts"),
        (1.0, {"a": float("-inf")}, "reward.parts.a"),
        (1.0, {"a": None}, "reward.parts.a"),
        (1.0, {3: 1.0}, "reward.parts"),
        (1.0, {"\ud800": 1.0}, "reward.parts"),
    ],
)
def test_reward_refuses(value: Any, parts: Any, field: str) -> None:
    assert refused(lambda: Reward(value, parts)).field == field


def test_reward_keeps_its_own_parts() -> None:
    parts = {"goal": 1.0}
    reward = Reward(1.0, parts)
    parts["goal"] = 9.0
    assert reward.parts == {"goal": 1.0}


# -- ids and the checks that all records share ---------------------------------------------


def test_ids_follow_from_what_they_name() -> None:
    run, key = RunId("r"), TaskKey("t")
    assert trajectory_id(run, 1, key, 0) == trajectory_id(run, 1, key, 0)
    ids = {trajectory_id(run, step, key, row) for step in range(20) for row in range(20)}
    assert len(ids) == 400
    assert group_id(run, 1, key) == group_id(run, 1, key, 0) != group_id(run, 1, key, 1)
    assert GroupId(trajectory_id(run, 1, key, 0)) != group_id(run, 1, key, 0)


@pytest.mark.parametrize("value", ["a", "A1._:+=@-", "x" * 128, "0"])
def test_good_ids(value: str) -> None:
    check_id("id", value)


@pytest.mark.parametrize(
    "value", ["", "x" * 129, ".hidden", "-dash", "a/b", "a b", "a\n", "ü", "a\0", None, 3, b"a"]
)
def test_bad_ids(value: Any) -> None:
    assert refused(lambda: check_id("some.id", value)).field == "some.id"


@pytest.mark.parametrize("value", [-1, 11, True, 1.0, "1", None])
def test_bad_counts(value: Any) -> None:
    assert refused(lambda: check_count("n", value, 10)).field == "n"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "1", None, HUGE, 1j])
def test_bad_numbers(value: Any) -> None:
    assert refused(lambda: check_finite("x", value)).field == "x"


@pytest.mark.parametrize("value", [b"a", None, 1, "a\ud800"])
def test_bad_texts(value: Any) -> None:
    assert refused(lambda: check_text("t", value)).field == "t"

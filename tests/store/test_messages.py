"""OpenAI messages in and out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.errors import BadFile
from recollect.store import open_store
from recollect.store.exporting import export_file
from recollect.store.importing import BadLine, ImportReport, import_file
from recollect.trajectory import Trajectory
from recollect.types import NoteSpan, Origin, RunId, SegmentKind, StopReason

from . import import_factories as make


def read(tmp_path: Path, *lines: Any, **options: Any) -> tuple[ImportReport, list[Trajectory]]:
    path = make.write_lines(tmp_path / "rows.jsonl", *lines)
    with open_store(tmp_path / "store.db") as store:
        report = import_file(store, path, **options)
        return report, make.contents(store)


def read_one(tmp_path: Path, line: Any, **options: Any) -> Trajectory:
    report, rows = read(tmp_path, line, **options)
    assert (report.added, report.bad) == (1, ())
    return rows[0]


def exported(store: Any, **options: Any) -> bytes:
    stream = BytesIO()
    query = make.EVERYTHING
    export_file(store, None, stream=stream, format="messages", query=query, **options)
    return stream.getvalue()


# -- in ---------------------------------------------------------------------------------------


def test_a_conversation_without_logprobs_is_a_demo(tmp_path: Path) -> None:
    row = read_one(tmp_path, make.message_line())
    assert (row.origin, row.policy_version, row.logprobs) == (Origin.DEMO, None, None)
    assert (row.tokens.size, row.run, row.step) == (0, "imported", 0)
    assert (row.reward.value, row.success, row.stop) == (1.0, True, StopReason.UNKNOWN)
    kinds = [(s.kind.value, s.start, s.end, s.text) for s in row.segments]
    assert kinds == [
        ("system", 0, 0, "Be brief."),
        ("user", 0, 0, "2 + 2?"),
        ("assistant", 0, 0, "4"),
    ]


def test_a_conversation_with_logprobs_is_fresh(tmp_path: Path) -> None:
    row = read_one(tmp_path, make.sampled_line())
    assert (row.origin, row.policy_version, row.tokenizer) == (Origin.FRESH, 3, "tok")
    assert row.tokens.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert row.sampled.tolist() == [False] * 3 + [True, False, False, True]
    assert row.logprobs is not None
    assert row.logprobs.tolist() == [-0.5, -0.25]
    assert row.entropies is None
    assert row.sampling is not None
    assert (row.sampling.temperature, row.sampling.top_p) == (0.5, 1.0)
    assert [(s.start, s.end) for s in row.segments] == [(0, 3), (3, 5), (5, 6), (6, 7)]


def test_entropies_follow_the_logprobs(tmp_path: Path) -> None:
    line = make.sampled_line()
    line["messages"][1]["entropies"] = [0.25, None]
    line["messages"][3]["entropies"] = [0]
    row = read_one(tmp_path, line)
    assert row.entropies is not None
    assert row.entropies.tolist() == [0.25, 0.0]


def test_every_form_of_content_is_text(tmp_path: Path) -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": {"b": 1, "a": []}},
    }
    plain = {"index": 0, "function": {"name": "g", "arguments": "not json"}}
    messages = [
        {
            "role": "developer",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        {"role": "user", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [call, plain], "refusal": None},
        {"role": "tool", "content": "42", "tool_call_id": "c1", "name": "f"},
        {"role": "assistant", "content": "done", "annotations": [], "weight": 1},
    ]
    row = read_one(tmp_path, make.message_line(messages=messages))
    assert [s.text for s in row.segments] == ["ab", "", "", "42", "done"]
    assert row.segments[0].kind is SegmentKind.SYSTEM
    assert [(c.name, c.arguments, c.id) for c in row.segments[2].calls] == [
        ("f", '{"a":[],"b":1}', "c1"),
        ("g", "not json", ""),
    ]
    assert (row.segments[3].call_id, row.segments[3].name) == ("c1", "f")
    assert row.extra == {"messages": {"4": {"weight": 1}}}


def test_what_has_no_place_is_kept_in_extra(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    row = read_one(tmp_path, make.message_line(tools=tools, source="web", nothing=None))
    assert row.extra == {"tools": tools, "source": "web"}


def test_tasks_are_named_or_follow_from_the_prompt(tmp_path: Path) -> None:
    other = make.message_line()["messages"]
    other[2] = {"role": "assistant", "content": "5"}
    described = {"environment": "maths", "id": "sum", "level": 2, "split": "test"}
    lines = [
        make.message_line(),
        make.message_line(messages=other),
        make.message_line(task="sum-1"),
        make.message_line(task=17),
        make.message_line(task=described),
    ]
    path = make.write_lines(tmp_path / "rows.jsonl", *lines)
    with open_store(tmp_path / "store.db") as store:
        assert import_file(store, path, environment="arith").added == 5
        rows = make.contents(store)
        tasks = [store.task(row.task) for row in rows]
    assert rows[0].task == rows[1].task
    assert rows[0].group == rows[1].group
    assert (tasks[0].environment, tasks[0].query) == ("arith", "2 + 2?")
    assert [task.id for task in tasks[2:]] == ["sum-1", "17", "sum"]
    assert (tasks[4].environment, tasks[4].level, tasks[4].split) == ("maths", 2, "test")


def test_notes_do_not_change_the_task(tmp_path: Path) -> None:
    note = {"role": "system", "kind": "note", "content": "Count on your fingers."}
    guided = make.message_line()
    guided["messages"].insert(1, note)
    _, rows = read(tmp_path, make.message_line(), guided)
    assert rows[0].task == rows[1].task
    assert rows[1].segments[1].kind is SegmentKind.NOTE


def test_importing_twice_changes_nothing(tmp_path: Path) -> None:
    lines = [
        make.message_line(),
        make.sampled_line(),
        make.message_line(id="mine"),
        make.message_line(id=9),
    ]
    first, rows = read(tmp_path, *lines)
    again, same = read(tmp_path, *lines)
    assert (first.added, first.known) == (4, 0)
    assert (again.added, again.known, again.bad) == (0, 4, ())
    assert rows == same
    assert {row.id for row in rows} >= {"mine", "9"}
    other, more = read(tmp_path, *lines[:2], run=RunId("elsewhere"))
    assert (other.added, other.run, len(more)) == (2, "elsewhere", 6)


def test_equal_attempts_of_a_file_are_different_attempts(tmp_path: Path) -> None:
    """Most of a group may say the same; two of three that succeed are not one of two."""
    right, wrong = make.message_line(), make.message_line(reward=0)
    read_one(tmp_path, right)
    report, rows = read(tmp_path, right, wrong, right)
    assert (report.added, report.known) == (2, 1)  # the first is named as ever
    assert [row.success for row in rows] == [True, False, True]
    again, same = read(tmp_path, right, wrong, right)
    assert (again.added, again.known) == (0, 3)
    assert rows == same


def test_a_reward_is_never_made_up(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="reward: is missing"):
        read(tmp_path, make.message_line(reward=...))
    row = read_one(tmp_path, make.message_line(reward=...), default_reward=0.25)
    assert (row.reward.value, row.success) == (0.25, False)
    row = read(tmp_path, make.message_line(reward=0.5, id="x"), success_threshold=0.5)[1][-1]
    assert row.success
    row = read(tmp_path, make.message_line(reward=0, success=True, id="y"))[1][-1]
    assert row.success


def test_an_answer_to_nothing_cannot_come_in(tmp_path: Path) -> None:
    """A row whose first token was sampled could be drawn but not trained on, and end a run."""
    answer = {"role": "assistant", "content": "Hi", "token_ids": [5, 6], "logprobs": [-0.5, -0.25]}
    facts = {"policy_version": 0, "tokenizer": "tok", "sampling": {"temperature": 1.0}}
    eager = make.message_line(messages=[answer], id="eager", **facts)
    report, rows = read(tmp_path, eager, make.message_line(id="good"))
    assert [row.id for row in rows] == ["good"]
    assert [bad.field for bad in report.bad] == ["sampled"]


SECOND = 1  # the message that is changed below
LINES: list[tuple[dict[str, Any], str, str]] = [
    ({"messages": ...}, "messages", "is missing"),
    ({"messages": []}, "messages", "is empty"),
    ({"messages": "hi"}, "messages", "expected an array, got text"),
    ({"messages": [5]}, "messages[0]", "expected an object, got a number"),
    ({"mesages": [], "messages": ...}, "messages", "is missing"),
    ({"rewards": 1}, "rewards", "did you mean 'reward'?"),
    ({"reward": "high"}, "reward", "expected a number, got text"),
    ({"reward": 10**400}, "reward", "too large"),
    ({"success": "yes"}, "success", "expected true or false"),
    ({"task": ""}, "task", "expected an id or an object"),
    ({"task": [1]}, "task", "expected an id or an object"),
    ({"task": {}}, "task.id", "is missing"),
    ({"task": {"id": "a", "levle": 1}}, "task.levle", "did you mean 'level'?"),
    ({"task": {"id": "a", "level": -1}}, "task.level", "outside"),
    ({"id": "../x"}, "id", "is not an id"),
    ({"id": {"a": 1}}, "id", "is not an id"),
    ({"run": "a/b"}, "run", "is not an id"),
    ({"step": 1.5}, "step", "whole number"),
    ({"tools": {}}, "tools", "expected an array"),
    ({"tools": [], "extra": {"tools": 1}}, "tools", "is given twice"),
    ({"extra": []}, "extra", "expected an object"),
    ({"policy_version": 1}, "policy_version", "have no logprobs"),
    ({"origin": "fresh"}, "logprobs", "are missing"),
    ({"notes": [{"note": "n", "message": 1}]}, "notes[0].message", "not the position of a note"),
    ({"notes": [{"note": "n", "message": True}]}, "notes[0].message", "not the position of a note"),
    ({"notes": [{"note": "n", "message": 99}]}, "notes[0].message", "not the position of a note"),
]
MESSAGES: list[tuple[dict[str, Any], str, str]] = [
    ({"role": "boss"}, "role", "'boss' is not one of system, developer, user"),
    ({"role": "function"}, "role", "is not one of"),
    ({"role": None}, "role", "is missing"),
    ({"role": {"a": 1}}, "role", "is not one of"),
    ({"content": None}, "content", "is missing"),
    ({"content": 5}, "content", "expected text or text parts"),
    ({"content": "\ud800"}, "content", "lone surrogate"),
    ({"content": [{"type": "image_url", "image_url": {}}]}, "content[0].type", "only text"),
    ({"content": [{"type": "text", "text": None}]}, "content[0].type", "only text"),
    ({"content": ["a"]}, "content[0]", "expected an object"),
    ({"kind": "secret"}, "kind", "only a system message"),
    ({"kind": "note"}, "kind", "only a system message"),
    ({"token_ids": [1]}, "token_ids", "..."),
    ({"logprobs": [-1]}, "logprobs", "..."),
    ({"tool_calls": [{"function": {"name": "f"}}]}, "tool_calls[0].function.arguments", "missing"),
    (
        {"tool_calls": [{"function": {"name": 1, "arguments": ""}}]},
        "tool_calls[0].function.name",
        "text",
    ),
    ({"tool_calls": [{"type": "web"}]}, "tool_calls[0].type", "is not a function call"),
    ({"tool_calls": {}}, "tool_calls", "expected an array"),
    ({"function_call": {"name": "f"}}, "function_call", "use tool_calls"),
    ({"tool_call": []}, "tool_call", "did you mean 'tool_calls'?"),
    ({"log_probs": [1]}, "log_probs", "did you mean 'logprobs'?"),
    ({"name": 5}, "name", "expected text"),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A store for all the bad lines below; one good line goes along with each."""
    with open_store(tmp_path_factory.mktemp("shared") / "store.db") as store:
        yield store
        assert len(make.contents(store)) == 1


def only_bad(tmp_path: Path, store: Any, line: Any) -> BadLine:
    report = import_file(store, make.write_lines(tmp_path / "x", make.message_line(), line))
    assert report.added + report.known == 1
    (bad,) = report.bad
    assert bad.line == 2
    return bad


@pytest.mark.parametrize(("change", "field", "reason"), LINES, ids=lambda v: str(v)[:30])
def test_wrong_rows_are_named(
    tmp_path: Path, shared: Any, change: Any, field: str, reason: str
) -> None:
    bad = only_bad(tmp_path, shared, make.message_line(**change))
    assert bad.field == field
    assert reason in bad.reason


@pytest.mark.parametrize(("change", "field", "reason"), MESSAGES, ids=lambda v: str(v)[:30])
def test_wrong_messages_are_named(
    tmp_path: Path, shared: Any, change: Any, field: str, reason: str
) -> None:
    line = make.message_line()
    line["messages"][SECOND] |= change
    bad = only_bad(tmp_path, shared, line)
    if reason == "...":  # half a row: the message that lacks it is named
        assert "is missing" in bad.reason
    else:
        assert bad.field == f"messages[{SECOND}].{field}"
        assert reason in bad.reason


def without(line: dict[str, Any], message: int | None, key: str) -> dict[str, Any]:
    del (line if message is None else line["messages"][message])[key]
    return line


def test_half_of_what_a_fresh_row_needs_is_refused(tmp_path: Path) -> None:
    line = make.sampled_line
    cases = [
        (
            without(line(), 0, "token_ids"),
            "messages[0].token_ids",
            "messages[1].token_ids is given",
        ),
        (without(line(), 1, "logprobs"), "messages[1].logprobs", "messages[3].logprobs is given"),
        (without(line(), None, "policy_version"), "policy_version", "is missing"),
        (without(line(), None, "tokenizer"), "tokenizer", "is missing"),
        (without(line(), None, "sampling"), "sampling", "is missing"),
    ]
    changed: list[tuple[int, dict[str, Any], str, str]] = [
        (1, {"logprobs": [-0.5]}, "messages[1].logprobs", "1 values for 2 token_ids"),
        (1, {"logprobs": [-0.5, "x"]}, "messages[1].logprobs", "found text"),
        (1, {"logprobs": [-0.5, 0.5]}, "logprobs", "must be <= 0"),
        (1, {"entropies": [0.5, None]}, "messages[3].entropies", "is missing"),
        (1, {"sampled": [0, 1]}, "messages[1].logprobs", "a number for each sampled token"),
        (1, {"sampled": [2, 1]}, "messages[1].sampled", "expected 0 or 1"),
        (0, {"logprobs": [-1, -1, -1]}, "messages[0].logprobs", "nothing else is sampled"),
        (0, {"sampled": [1, 1, 1]}, "messages[0].sampled", "nothing else is sampled"),
        (0, {"token_ids": [1.5]}, "messages[0].token_ids", "a fraction"),
        (0, {"token_ids": [-1]}, "messages[0].token_ids", "outside"),
    ]
    for message, change, field, reason in changed:
        row = line()
        row["messages"][message] |= change
        cases.append((row, field, reason))
    report, rows = read(tmp_path, *(row for row, _, _ in cases), line())
    assert len(rows) == 1
    for bad, (row, field, reason) in zip(report.bad, cases, strict=True):
        assert bad.field == field, row
        assert reason in bad.reason


# -- out ----------------------------------------------------------------------------------------


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        kept = make.fill(store)
        entropic = replace(make.tokenised_demo(301), entropies=np.ones(9, np.float32))
        swapped = make.guided(101)
        swapped = replace(swapped, origin=Origin.FRESH, notes=tuple(reversed(swapped.notes)))
        texty = replace(
            make.demo(201),
            segments=make.guided().segments[1:1]
            + tuple(replace(s, start=0, end=0) for s in make.guided().segments),
            notes=(NoteSpan(make.NOTE.id, 0, 0), NoteSpan(make.LESSON.id, 0, 0)),
        )
        make.fill(store, [entropic, swapped, texty])
        data = exported(store)
        tasks = {task.key: task for task in store.tasks().values()}
    (tmp_path / "rows.jsonl").write_bytes(data)
    with open_store(tmp_path / "b.db") as store:
        report = import_file(store, tmp_path / "rows.jsonl")
        assert (report.format, report.bad) == ("messages", ())
        assert make.contents(store) == [*kept, entropic, swapped, texty]
        assert {task.key: task for task in store.tasks().values()} == tasks
        assert exported(store) == data
        assert list(store.verify()) == []


def test_order_and_roles_are_those_of_openai(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        make.fill(store, [make.guided()])
        line = json.loads(exported(store))
    messages = line["messages"]
    assert [message["role"] for message in messages] == [
        *("system", "system", "system", "user", "assistant", "tool", "assistant")
    ]
    assert [message.get("kind") for message in messages[:3]] == [None, "note", "note"]
    assert messages[4]["content"] is None
    assert messages[4]["tool_calls"][0]["function"]["name"] == "find_booking"
    assert messages[5]["tool_call_id"] == "call_1"
    assert [message["token_ids"] for message in messages][1:3] == [
        [n] for n in make.guided().tokens.tolist()[3:5]
    ]
    assert line["notes"][0] == {"note": "note-1", "message": 2}
    assert line["tools"] == [{"type": "function"}]


def test_without_tokens_rows_come_back_as_demos(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        kept = make.fill(store)
        data = exported(store, tokens=False)
    assert b"token_ids" not in data
    assert b"logprobs" not in data
    (tmp_path / "rows.jsonl").write_bytes(data)
    with open_store(tmp_path / "b.db") as store:
        assert import_file(store, tmp_path / "rows.jsonl").bad == ()
        rows = make.contents(store)
    assert {row.origin for row in rows} == {Origin.DEMO}
    assert [row.id for row in rows] == [row.id for row in kept]
    assert [[s.text for s in row.segments] for row in rows] == [
        [s.text for s in row.segments] for row in kept
    ]
    with open_store(tmp_path / "a.db") as store:
        report = import_file(
            store, make.write_lines(tmp_path / "more.jsonl", data, make.message_line())
        )
        assert report.added == 1
        assert report.known == 1  # the demo lost nothing
        assert report.bad_total == len(kept) - 1
        assert "already stored with different content" in report.bad[0].reason

"""`recollect pool show`: a conversation for people, everything for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.ledger import Note, Run
from recollect.store import open_store
from recollect.store.records import Batch
from recollect.trajectory import Trajectory
from recollect.types import NoteId, NoteSpan, Origin, RunId, Segment, SegmentKind, ToolCall

from .conftest import AIRLINE, Filled, ask_json, assert_refused, invoke, make_trajectory


def shown(filled: Filled, number: int, *options: object) -> str:
    result = invoke("pool", "show", filled.items[number].id, "--store", filled.path, *options)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    return result.stdout


def keep(path: Path, *items: Trajectory, notes: tuple[Note, ...] = ()) -> None:
    with open_store(path) as store:
        store.commit(Batch(runs=[Run(RunId("alpha"), 7)], tasks=AIRLINE, notes=notes))
        store.commit(Batch(trajectories=items))


def test_header_tells_the_story(filled: Filled) -> None:
    text = shown(filled, 0)
    for words in (
        f"trajectory {filled.items[0].id}",
        "task       air-0 of desk:airline",
        "reward     1 (",
        "state 0.75",
        "success",
        "origin     fresh, policy version 0, age 3",
        "tokens     28, of them 13 sampled",
        "temperature 0.8",
        "uses       2, last at step 2",
        "status     live",
        "tokenizer tok-1",
    ):
        assert words in text


def test_marks_are_listed(filled: Filled) -> None:
    assert "marks      ban (by hand): rude" in shown(filled, 1)
    assert "status     live, pinned" in shown(filled, 2)
    assert "marks      evict (run alpha, step 1): budget" in shown(filled, 3)


def test_conversation_in_order_with_kinds_and_calls(filled: Filled) -> None:
    text = shown(filled, 4)
    parts = [
        "system  [tokens 0..6]",
        "  You are a clerk.",
        "user  [tokens 6..11]",
        "assistant  [tokens 11..19, 8 sampled]",
        "  I look it up (attempt 4).",
        "  call find as call-1",
        '      "code": "QX7",',
        "tool find (answers call-1)  [tokens 19..23]",
        '  {"gate": 12}',
        "  Gate 12.",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_a_demo_has_no_age_and_no_logprobs(filled: Filled) -> None:
    text = shown(filled, 14, "--logprobs")
    assert "origin     demo, no policy sampled it" in text
    assert "mean log-prob" not in text


def test_logprobs_of_every_sampled_token(filled: Filled) -> None:
    item = filled.items[5]
    lines = [line.split() for line in shown(filled, 5, "--logprobs").splitlines()]
    found = [line for line in lines if len(line) == 4 and line[0].isdigit()]
    assert item.logprobs is not None
    assert item.entropies is not None
    positions = [i for i in range(28) if item.sampled[i]]
    assert [int(line[0]) for line in found] == positions
    assert [int(line[1]) for line in found] == [int(item.tokens[i]) for i in positions]
    assert [float(line[2]) for line in found] == pytest.approx(item.logprobs.tolist(), abs=1e-4)
    assert [float(line[3]) for line in found] == pytest.approx(item.entropies.tolist(), abs=1e-4)


def test_segments(filled: Filled) -> None:
    lines = shown(filled, 4, "--segments").splitlines()
    table = [line.split() for line in lines[lines.index("") + 1 :]]
    assert table[0] == ["segment", "kind", "name", "start", "end", "sampled", "characters", "calls"]
    assert table[3] == ["2", "assistant", "-", "11", "19", "8", "25", "1"]
    assert table[4][:3] == ["3", "tool", "find"]
    assert "You are a clerk" not in "\n".join(lines)


def test_json_has_everything(filled: Filled) -> None:
    item = filled.items[0]
    found: dict[str, Any] = ask_json("pool", "show", item.id, "--store", filled.path)
    assert found["row"]["uses"] == 2
    assert found["task"]["id"] == "air-0"
    assert found["trajectory"]["tokens"] == item.tokens.tolist()
    assert item.logprobs is not None
    assert found["trajectory"]["logprobs"] == pytest.approx(item.logprobs.tolist())
    assert len(found["trajectory"]["segments"]) == 5
    assert [use["step"] for use in found["uses"]] == [1, 2]
    assert [draw["reason"] for draw in found["draws"]] == ["mix", "mix"]
    assert (found["marks"], found["links"]) == ([], [])


def test_unique_prefix_is_enough(filled: Filled) -> None:
    assert (
        f"trajectory {filled.items[6].id}"
        in invoke("pool", "show", filled.items[6].id[:7], "--store", filled.path).stdout
    )


@pytest.mark.parametrize("given", ["zzz", "", "%", "' OR '1'='1"])
def test_unknown_id(filled: Filled, given: str) -> None:
    result = invoke("pool", "show", given, "--store", filled.path)
    assert_refused(result, "No trajectory", "recollect pool ls")


def test_ambiguous_prefix(tmp_path: Path) -> None:
    items = [make_trajectory(i, AIRLINE[0], id=f"imported-{i}") for i in range(12)]
    keep(tmp_path / "s.db", *items)
    result = invoke("pool", "show", "imported-", "--store", tmp_path / "s.db")
    assert_refused(result, "fits several", "imported-0", "more characters")
    # An id that begins other ids is still an id.
    result = invoke("pool", "show", "imported-1", "--store", tmp_path / "s.db")
    assert "trajectory imported-1\n" in result.stdout


HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x9b2J [bold red]markup[/] [link=file:///x]y[/link] "
    ":smile: \u202egpj.exe\u202c\rover\x08\x7f\n\nuser  [tokens 6..11]\n  forged\x00"
)


def test_text_of_an_agent_is_shown_never_obeyed(tmp_path: Path) -> None:
    tool = ToolCall(HOSTILE, HOSTILE, HOSTILE)
    item = make_trajectory(0, AIRLINE[0], text=HOSTILE)
    first, second, third, fourth, last = item.segments
    segments = (
        first,
        second,
        Segment(third.kind, third.start, third.end, HOSTILE, (tool,)),
        Segment(fourth.kind, fourth.start, fourth.end, HOSTILE, (), HOSTILE, HOSTILE),
        last,
    )
    item = make_trajectory(0, AIRLINE[0], segments=segments, extra={HOSTILE: HOSTILE})
    keep(tmp_path / "s.db", item)
    result = invoke("pool", "show", item.id, "--store", tmp_path / "s.db", "--logprobs")
    assert result.exit_code == 0
    assert not set("\x1b\x9b\x07\x00\x08\x7f\r\u202e\u202c") & set(result.output)
    assert "\\x1b[31mred\\x1b[0m" in result.stdout
    assert "[bold red]markup[/]" in result.stdout
    assert ":smile:" in result.stdout
    headings = [line for line in result.stdout.splitlines() if line.startswith("user ")]
    assert len(headings) == 1, "text passed for a heading"


@pytest.mark.parametrize("arguments", ["not json", "[" * 5000, '{"a": "\\u001b[31m"}', ""])
def test_arguments_of_a_call_may_be_anything(tmp_path: Path, arguments: str) -> None:
    item = make_trajectory(0, AIRLINE[0])
    spoken = Segment(SegmentKind.ASSISTANT, 11, 19, "", (ToolCall("find", arguments),))
    segments = (*item.segments[:2], spoken, *item.segments[3:])
    item = make_trajectory(0, AIRLINE[0], segments=segments)
    keep(tmp_path / "s.db", item)
    result = invoke("pool", "show", item.id, "--store", tmp_path / "s.db")
    assert result.exit_code == 0
    assert "  call find\n" in result.stdout
    assert "\x1b" not in result.stdout


def test_notes_are_shown_with_their_span(tmp_path: Path) -> None:
    item = make_trajectory(0, AIRLINE[0])
    note = Segment(SegmentKind.NOTE, 6, 11, "Ask for the code first.")
    item = make_trajectory(
        0, AIRLINE[0], segments=(item.segments[0], note, *item.segments[2:]),
        origin=Origin.GUIDED, notes=(NoteSpan(NoteId("note-1"), 6, 11),),
    )  # fmt: skip
    keep(tmp_path / "s.db", item, notes=(Note(NoteId("note-1"), "Ask for the code first."),))
    text = invoke("pool", "show", item.id, "--store", tmp_path / "s.db").stdout
    assert "notes      note-1 at tokens 6..11" in text
    assert "note  [tokens 6..11]\n  Ask for the code first." in text


def test_segment_without_text_says_so(tmp_path: Path) -> None:
    item = make_trajectory(0, AIRLINE[0])
    bare = tuple(Segment(s.kind, s.start, s.end) for s in item.segments)
    item = make_trajectory(0, AIRLINE[0], segments=bare)
    keep(tmp_path / "s.db", item)
    text = invoke("pool", "show", item.id, "--store", tmp_path / "s.db").stdout
    assert text.count("(no text recorded)") == 5

"""Valid stores for the tests of import and export: every kind of row, every kind of text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from recollect.ledger import Note, NoteLink, Run
from recollect.store.records import Batch, Query
from recollect.trajectory import Trajectory
from recollect.types import (
    LinkKind,
    NoteId,
    NoteSpan,
    Origin,
    Reward,
    RunId,
    Sampling,
    Segment,
    SegmentKind,
    StopReason,
    Task,
    ToolCall,
    TrajectoryId,
    group_id,
)

EVERYTHING = Query(status=None)
RUN = Run(RunId("run-1"), seed=7, config={"lr": 1e-5, "nested": {"list": [1, 2.5, None, True]}})
TRICKY = 'naïve ☃ 𝄞 \u2028 \x00 \t\r\n "quoted" \\back\\ <|im_end|> </EXP> {0.__class__} %s'
NOTE = Note(
    NoteId("note-1"),
    "Ask for the booking code first. " + TRICKY,
    when_to_use="bookings",
    trust=0.25,
    run=RUN.id,
    step=0,
    data={"uses": 3},
)
LESSON = Note(NoteId("note-2"), "Distilled from a failure.", author="me")


def task(number: int = 0) -> Task:
    return Task(
        "desk:airline", f"t{number}", "2", f"query {number} ü", "airline", "test", number % 3
    )


def fresh(number: int = 0, **changes: Any) -> Trajectory:
    """A sampled row: five segments, a tool call, gaps between sampled tokens."""
    about = task(number % 5)
    step = number // 5
    rng = np.random.default_rng(number)
    sampled = np.zeros(24, dtype=bool)
    sampled[7:11] = sampled[17:19] = sampled[21:24] = True
    logprobs = -rng.exponential(size=9).astype(np.float32)
    logprobs[:4] = [-0.0, 0.0, np.float32(-1e-40), np.float32(-3.3e38)]
    entropies = rng.random(9).astype(np.float32)
    entropies[0] = -0.0
    call = ToolCall("find_booking", '{"code": "A1", "ü": [1]}', "call_1")
    values: dict[str, Any] = {
        "id": TrajectoryId(f"row-{number}"),
        "task": about.key,
        "run": RUN.id,
        "step": step,
        "group": group_id(RUN.id, step, about.key),
        "origin": Origin.FRESH,
        "policy_version": step,
        "tokens": rng.integers(0, 2**31 - 1, 24).astype(np.int32),
        "sampled": sampled,
        "logprobs": logprobs,
        "entropies": entropies,
        "segments": (
            Segment(SegmentKind.SYSTEM, 0, 3, "You are an agent."),
            Segment(SegmentKind.USER, 3, 6, TRICKY, name="anna"),
            Segment(SegmentKind.ASSISTANT, 6, 12, "", (call,)),
            Segment(SegmentKind.TOOL, 12, 16, '{"found": true}', call_id="call_1", name="find"),
            Segment(SegmentKind.ASSISTANT, 16, 24, f"Done {number}."),
        ),
        "reward": Reward(0.1 * number, {"state": 0.1 * number, "größe": -0.0}),
        "success": number % 2 == 0,
        "stop": StopReason.TURN_LIMIT,
        "sampling": Sampling(0.7, 0.95, 40, 512),
        "tokenizer": "tok-sha",
        "environment_version": "3",
        "reward_version": "r2",
        "started": 1234.5,
        "finished": 1e9 / 7,
        "extra": {"tools": [{"type": "function"}], "a": {"b": [1, 1.0, "x", None]}},
    }
    return Trajectory(**values | changes)


def guided(number: int = 100) -> Trajectory:
    """A row sampled with two notes in its prompt, one of them twice."""
    row = fresh(number)
    segments = (
        row.segments[0],
        Segment(SegmentKind.NOTE, 3, 4, "first note", name="bank"),
        Segment(SegmentKind.NOTE, 4, 5, "second note"),
        Segment(SegmentKind.USER, 5, 6, "hi"),
        *row.segments[2:],
    )
    notes = (NoteSpan(NOTE.id, 4, 5), NoteSpan(NoteId("lost"), 3, 4), NoteSpan(NOTE.id, 3, 4))
    return replace(row, origin=Origin.GUIDED, segments=segments, notes=notes)


def demo(number: int = 200) -> Trajectory:
    """A row from outside: text only."""
    about = task(number % 5)
    nothing = np.zeros(0, dtype=np.int32)
    return Trajectory(
        id=TrajectoryId(f"demo-{number}"),
        task=about.key,
        run=RUN.id,
        step=0,
        group=group_id(RUN.id, 0, about.key),
        origin=Origin.DEMO,
        policy_version=None,
        tokens=nothing,
        sampled=nothing.astype(bool),
        logprobs=None,
        entropies=None,
        segments=(
            Segment(SegmentKind.USER, 0, 0, "What is 2 + 2?"),
            Segment(SegmentKind.ASSISTANT, 0, 0, TRICKY),
        ),
        reward=Reward(1.0),
        success=True,
        stop=StopReason.UNKNOWN,
    )


def tokenised_demo(number: int = 300) -> Trajectory:
    """A demo that was given tokens, and which of them to imitate."""
    row = fresh(number)
    return replace(row, origin=Origin.DEMO, policy_version=None, logprobs=None, entropies=None)


def rows(count: int = 12) -> list[Trajectory]:
    """Rows of every origin."""
    return [*(fresh(n) for n in range(count)), guided(), demo(), tokenised_demo()]


def fill(store: Any, trajectories: list[Trajectory] | None = None) -> list[Trajectory]:
    """Commit rows with their run, tasks, notes and links."""
    kept = rows() if trajectories is None else trajectories
    tasks = [task(n) for n in range(5)]
    links = [
        link
        for row in kept[1:2]
        for link in (
            NoteLink(LESSON.id, row.id, LinkKind.SOURCE),
            NoteLink(NOTE.id, row.id, LinkKind.SOURCE, RUN.id, 0),
        )
    ]
    store.commit(Batch(runs=[RUN], tasks=tasks, notes=[NOTE, LESSON]))
    store.commit(Batch(trajectories=kept, links=links))
    return kept


def contents(store: Any) -> list[Trajectory]:
    """Every row of a store in order of arrival."""
    return store.get([row.id for row in store.rows(EVERYTHING, limit=10_000).rows])


def message_line(**changes: Any) -> dict[str, Any]:
    """A row of the messages format, as others write it."""
    line = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "2 + 2?"},
            {"role": "assistant", "content": "4"},
        ],
        "reward": 1.0,
    }
    return {key: value for key, value in (line | changes).items() if value is not ...}


def sampled_line(**changes: Any) -> dict[str, Any]:
    """A row of the messages format with everything a fresh row needs."""
    messages = [
        {"role": "user", "content": "2 + 2?", "token_ids": [1, 2, 3]},
        {"role": "assistant", "content": "4", "token_ids": [4, 5], "logprobs": [-0.5, None]},
        {"role": "user", "content": "sure?", "token_ids": [6]},
        {"role": "assistant", "content": "yes", "token_ids": [7], "logprobs": [-0.25]},
    ]
    sampled = {
        "messages": messages,
        "policy_version": 3,
        "tokenizer": "tok",
        "sampling": {"temperature": 0.5},
    }
    return message_line(**sampled | changes)


def write_lines(path: Path, *lines: Any) -> Path:
    """Write lines: objects as JSON, text and bytes as they are."""
    spelled = [
        line if isinstance(line, bytes) else line.encode() if isinstance(line, str) else _json(line)
        for line in lines
    ]
    path.write_bytes(b"\n".join(spelled) + b"\n")
    return path


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()

"""Hypothesis strategies for arbitrary valid records of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from recollect.ledger import (
    Cursor,
    Draw,
    Event,
    Group,
    Mark,
    Note,
    NoteLink,
    Run,
    Score,
    TaskState,
    Use,
)
from recollect.store.records import Batch
from recollect.trajectory import Trajectory
from recollect.types import (
    Action,
    LinkKind,
    NoteId,
    NoteSpan,
    Origin,
    Reward,
    Sampling,
    Segment,
    SegmentKind,
    StopReason,
    Task,
    ToolCall,
    TrajectoryId,
)

texts = st.text(max_size=20)
ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:+=@-]{0,12}", fullmatch=True)
counts = st.integers(0, 2**31 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**100), 2**100) | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
optional_finite = st.none() | finite
# Finite float32 values at or below zero; their negatives serve as entropies.
negatives = st.floats(max_value=0, allow_nan=False, allow_infinity=False, width=32)
samplings = st.builds(
    Sampling,
    temperature=st.floats(0, 1e6),
    top_p=st.floats(0, 1, exclude_min=True),
    top_k=counts,
    max_tokens=counts,
)
rewards = st.builds(Reward, finite, st.dictionaries(texts, finite, max_size=3))
tasks = st.builds(
    Task,
    environment=texts.filter(bool),
    id=texts.filter(bool),
    version=texts,
    query=texts,
    domain=texts,
    split=texts,
    level=counts,
)
runs = st.builds(Run, ids, st.integers(0, 2**63 - 1), json_objects)
calls = st.builds(ToolCall, texts, texts, texts)


@st.composite
def trajectories(draw: st.DrawFn, run: str | None = None, task: str | None = None) -> Trajectory:
    """Draw any valid trajectory, of any origin, with or without tokens and entropies."""
    origin = draw(st.sampled_from(Origin))
    segments = draw(_segments(origin))
    length = segments[-1].end
    sampled = _sampled(draw, segments, length, at_least_one=origin is not Origin.DEMO)
    count = int(sampled.sum())
    is_demo = origin is Origin.DEMO
    return Trajectory(
        id=TrajectoryId(draw(ids)),
        task=task or draw(ids),  # type: ignore[arg-type]
        run=run or draw(ids),  # type: ignore[arg-type]
        step=draw(counts),
        group=draw(ids),  # type: ignore[arg-type]
        origin=origin,
        policy_version=None if is_demo else draw(counts),
        tokens=np.array(draw(st.lists(counts, min_size=length, max_size=length)), dtype=np.int32),
        sampled=sampled,
        logprobs=None if is_demo else _floats(draw, count, 1),
        entropies=_floats(draw, count, -1) if draw(st.booleans()) else None,
        segments=segments,
        reward=draw(rewards),
        success=draw(st.booleans()),
        stop=draw(st.sampled_from(StopReason)),
        sampling=draw(samplings if not is_demo else st.none() | samplings),
        notes=_notes(draw, segments, origin),
        tokenizer=draw(texts if is_demo else texts.filter(bool)),
        environment_version=draw(texts),
        reward_version=draw(texts),
        started=draw(finite),
        finished=draw(finite),
        extra=draw(json_objects),
    )


@st.composite
def _segments(draw: st.DrawFn, origin: Origin) -> tuple[Segment, ...]:
    kinds = draw(st.lists(st.sampled_from(SegmentKind), min_size=1, max_size=5))
    sizes = draw(st.lists(st.integers(0, 9), min_size=len(kinds), max_size=len(kinds)))
    if origin is Origin.GUIDED:
        kinds, sizes = [*kinds, SegmentKind.NOTE], [*sizes, draw(st.integers(0, 3))]
    if origin is not Origin.DEMO:
        kinds, sizes = [*kinds, SegmentKind.ASSISTANT], [*sizes, draw(st.integers(2, 9))]
    segments, start = [], 0
    for kind, size in zip(kinds, sizes, strict=True):
        view = (draw(st.lists(calls, max_size=2)), draw(texts), draw(texts))
        segments.append(
            Segment(kind, start, start + size, draw(texts), tuple(view[0]), view[1], view[2])
        )
        start += size
    return tuple(segments)


def _sampled(
    draw: st.DrawFn, segments: tuple[Segment, ...], length: int, at_least_one: bool
) -> np.ndarray:
    sampled = np.zeros(length, dtype=np.bool_)
    for segment in segments:
        if segment.kind is SegmentKind.ASSISTANT:
            for position in range(max(1, segment.start), segment.end):  # never the first token
                sampled[position] = draw(st.booleans())
    if at_least_one and not sampled.any():
        sampled[length - 1] = True  # the last segment is the assistant's
    return sampled


def _floats(draw: st.DrawFn, count: int, sign: int) -> np.ndarray:
    values = draw(st.lists(negatives, min_size=count, max_size=count))
    return np.array(values, dtype=np.float32) * np.float32(sign)


def _notes(draw: st.DrawFn, segments: tuple[Segment, ...], origin: Origin) -> tuple[NoteSpan, ...]:
    spans = [s for s in segments if s.kind is SegmentKind.NOTE]
    wanted = [s for s in spans if origin is Origin.GUIDED or draw(st.booleans())]
    return tuple(NoteSpan(NoteId(draw(ids)), s.start, s.end) for s in wanted)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Draw a batch in which everything that is referred to is there, and no key is used twice."""
    run, task = draw(runs), draw(tasks)
    rows = draw(st.lists(trajectories(run.id, task.key), min_size=1, max_size=3, unique_by=_id))
    row = rows[0].id
    step = st.integers(0, 50)
    owner: dict[str, Any] = {"run": run.id, "step": draw(step)}
    draws = [
        Draw(run.id, draw(step), slot, row, draw(ids), draw(counts), p, draw(texts), draw(finite))
        for slot, p in enumerate(draw(st.lists(st.floats(0, 1, exclude_min=True), max_size=3)))
    ]
    return Batch(
        runs=[run],
        tasks=[task],
        trajectories=rows,
        groups=[Group(draw(ids), run.id, draw(counts), task.key, draw(counts))],
        task_states=[draw(_task_states(run, task))],
        draws=draws,
        uses=[draw(_uses(d)) for d in draws if draw(st.booleans())],
        scores=[draw(_scores(run, step, row)) for step in draw(st.sets(counts, max_size=3))],
        marks=[
            Mark(row, draw(st.sampled_from(Action)), draw(texts)),
            Mark(row, draw(st.sampled_from(Action)), draw(texts), **owner),
        ],
        notes=[
            Note(
                *(NoteId("n-" + draw(ids)), draw(texts), draw(texts), draw(texts), draw(texts)),
                trust=draw(finite),
                data=draw(json_objects),
                **(owner if draw(st.booleans()) else {}),
            )
        ],
        links=[NoteLink(NoteId("l-" + draw(ids)), row, draw(st.sampled_from(LinkKind)), **owner)],
        events=[Event(run.id, draw(counts), draw(texts), draw(json_objects))],
        cursors=[Cursor(run.id, draw(counts), draw(counts), draw(json_objects))],
    )


def _id(trajectory: Trajectory) -> str:
    return trajectory.id


def _task_states(run: Run, task: Task) -> st.SearchStrategy[TaskState]:
    return st.integers(0, 100).flatmap(
        lambda rows: st.builds(
            TaskState,
            run=st.just(run.id),
            task=st.just(task.key),
            step=counts,
            successes=st.integers(0, rows),
            rows=st.just(rows),
            retired=st.booleans(),
            retest_step=st.none() | counts,
            data=json_objects,
        )
    )


def _scores(run: Run, step: int, row: TrajectoryId) -> st.SearchStrategy[Score]:
    return st.builds(
        Score,
        run=st.just(run.id),
        step=st.just(step),
        trajectory=st.just(row),
        advantage=finite,
        priority=st.floats(0, allow_infinity=False),
        ess=st.none() | st.floats(0, 1, exclude_min=True),
        ratio=st.none() | st.floats(0, allow_infinity=False),
    )


def _uses(drawn: Draw) -> st.SearchStrategy[Use]:
    return st.builds(
        Use,
        run=st.just(drawn.run),
        step=st.just(drawn.step),
        slot=st.just(drawn.slot),
        trajectory=st.just(drawn.trajectory),
        epochs=counts,
        ratio_mean=optional_finite,
        ratio_p50=optional_finite,
        ratio_p99=optional_finite,
        ratio_max=optional_finite,
        ess=optional_finite,
        clip_share=optional_finite,
        loss_share=optional_finite,
    )

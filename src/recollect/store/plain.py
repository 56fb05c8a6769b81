"""Records as plain JSON objects, and back: the shapes that JSON lines and Parquet share.

Arrays of a trajectory travel apart (`Arrays`), because each format has its own way to hold
numbers. Everything else is here, once.
"""

from __future__ import annotations

from collections.abc import Mapping

from recollect.canonical import Json
from recollect.errors import InvalidRecord
from recollect.ledger import Note, NoteLink, Run
from recollect.store.arrays import Arrays
from recollect.store.fields import Fields, to_number
from recollect.store.incoming import Limits
from recollect.trajectory import Trajectory
from recollect.types import (
    LinkKind,
    NoteSpan,
    Origin,
    Reward,
    Sampling,
    Segment,
    SegmentKind,
    StopReason,
    Task,
    ToolCall,
)

Plain = dict[str, Json]
_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens")


def run_to_plain(run: Run) -> Plain:
    """Write a run."""
    return {"id": run.id, "seed": run.seed, "config": dict(run.config)}


def run_from(fields: Fields) -> Run:
    """Read a run."""
    return Run(fields.take("id"), fields.take("seed", 0), fields.take("config", {}))


def task_to_plain(task: Task) -> Plain:
    """Write a task without its key, which follows from the rest."""
    return {
        "environment": task.environment,
        "id": task.id,
        "version": task.version,
        "query": task.query,
        "domain": task.domain,
        "split": task.split,
        "level": task.level,
    }


def task_from(fields: Fields, environment: str | None = None) -> Task:
    """Read a task; `environment` is for those that do not name theirs."""
    given = fields.take("environment", environment)
    if given is None:
        raise InvalidRecord(fields.name("environment"), "is missing")
    return Task(
        environment=given,
        id=fields.take("id"),
        version=fields.take("version", "1"),
        query=fields.take("query", ""),
        domain=fields.take("domain", ""),
        split=fields.take("split", "train"),
        level=fields.take("level", 0),
    )


def note_to_plain(note: Note) -> Plain:
    """Write a note."""
    return {
        "id": note.id,
        "content": note.content,
        "when_to_use": note.when_to_use,
        "workspace": note.workspace,
        "author": note.author,
        "trust": float(note.trust),
        "run": note.run,
        "step": note.step,
        "data": dict(note.data),
    }


def note_from(fields: Fields) -> Note:
    """Read a note."""
    return Note(
        id=fields.take("id"),
        content=fields.take("content"),
        when_to_use=fields.take("when_to_use", ""),
        workspace=fields.take("workspace", "default"),
        author=fields.take("author", ""),
        trust=fields.number("trust", 1.0),
        run=fields.take("run", None),
        step=fields.take("step", None),
        data=fields.take("data", {}),
    )


def link_to_plain(link: NoteLink) -> Plain:
    """Write a link between a note and a trajectory."""
    return {
        "note": link.note,
        "trajectory": link.trajectory,
        "kind": link.kind.value,
        "run": link.run,
        "step": link.step,
    }


def link_from(fields: Fields) -> NoteLink:
    """Read a link between a note and a trajectory."""
    return NoteLink(
        note=fields.take("note"),
        trajectory=fields.take("trajectory"),
        kind=fields.choice("kind", LinkKind),
        run=fields.take("run", None),
        step=fields.take("step", None),
    )


def trajectory_to_plain(t: Trajectory) -> Plain:
    """Write a trajectory without its arrays."""
    return {
        "id": t.id,
        "task": t.task,
        "run": t.run,
        "step": t.step,
        "group": t.group,
        "origin": t.origin.value,
        "policy_version": t.policy_version,
        "segments": [_segment_to_plain(s) for s in t.segments],
        "reward": t.reward.value,
        "reward_parts": dict(t.reward.parts),
        "success": t.success,
        "stop": t.stop.value,
        "sampling": sampling_to_plain(t.sampling),
        "notes": [{"note": n.note, "start": n.start, "end": n.end} for n in t.notes],
        "tokenizer": t.tokenizer,
        "environment_version": t.environment_version,
        "reward_version": t.reward_version,
        "started": t.started,
        "finished": t.finished,
        "extra": dict(t.extra),
    }


def trajectory_from(fields: Fields, arrays: Arrays, limits: Limits) -> Trajectory:
    """Read a trajectory whose arrays were read already."""
    return Trajectory(
        id=fields.take("id"),
        task=fields.take("task"),
        run=fields.take("run"),
        step=fields.take("step"),
        group=fields.take("group"),
        origin=fields.choice("origin", Origin),
        policy_version=fields.take("policy_version", None),
        tokens=arrays.tokens,
        sampled=arrays.sampled,
        logprobs=arrays.logprobs,
        entropies=arrays.entropies,
        segments=tuple(
            _segment_from(Fields(item, fields.item("segments", index)))
            for index, item in enumerate(fields.items("segments", most=limits.max_messages))
        ),
        reward=reward_from(fields),
        success=fields.take("success"),
        stop=fields.choice("stop", StopReason, StopReason.DONE),
        sampling=sampling_from(fields),
        notes=tuple(
            _note_span_from(Fields(item, fields.item("notes", index)))
            for index, item in enumerate(fields.items("notes", [], most=limits.max_messages))
        ),
        tokenizer=fields.take("tokenizer", ""),
        environment_version=fields.take("environment_version", "1"),
        reward_version=fields.take("reward_version", "1"),
        started=fields.number("started", 0.0),
        finished=fields.number("finished", 0.0),
        extra=fields.take("extra", {}),
    )


def reward_from(fields: Fields, default: float | None = None) -> Reward:
    """Read `reward` and `reward_parts`."""
    value = fields.number("reward", default)
    parts = fields.take("reward_parts", {})
    if not isinstance(parts, Mapping):
        raise InvalidRecord(fields.name("reward_parts"), "must map names to numbers")
    named = {name: to_number("reward_parts", part) for name, part in parts.items()}
    return Reward(value, named)


def sampling_to_plain(sampling: Sampling | None) -> Plain | None:
    """Write sampling parameters."""
    return None if sampling is None else {name: getattr(sampling, name) for name in _SAMPLING}


def sampling_from(fields: Fields) -> Sampling | None:
    """Read `sampling`; members that are absent have their defaults (no truncation)."""
    given = fields.take("sampling", None)
    if given is None:
        return None
    members = Fields(given, fields.name("sampling"))
    sampling = Sampling(
        temperature=members.number("temperature", 1.0),
        top_p=members.number("top_p", 1.0),
        top_k=members.take("top_k", 0),
        max_tokens=members.take("max_tokens", 0),
    )
    members.refuse_rest()
    return sampling


def _segment_to_plain(s: Segment) -> Plain:
    plain: Plain = {"kind": s.kind.value, "start": s.start, "end": s.end, "text": s.text}
    if s.calls:
        plain["calls"] = [{"name": c.name, "arguments": c.arguments, "id": c.id} for c in s.calls]
    if s.call_id:
        plain["call_id"] = s.call_id
    if s.name:
        plain["name"] = s.name
    return plain


def _segment_from(fields: Fields) -> Segment:
    calls = tuple(
        _call_from(Fields(call, fields.item("calls", index)))
        for index, call in enumerate(fields.items("calls", []))
    )
    with fields.located():
        segment = Segment(
            kind=fields.choice("kind", SegmentKind),
            start=fields.take("start"),
            end=fields.take("end"),
            text=fields.take("text"),
            calls=calls,
            call_id=fields.take("call_id", ""),
            name=fields.take("name", ""),
        )
    fields.refuse_rest()
    return segment


def _call_from(fields: Fields) -> ToolCall:
    with fields.located():
        call = ToolCall(fields.take("name"), fields.take("arguments"), fields.take("id", ""))
    fields.refuse_rest()
    return call


def _note_span_from(fields: Fields) -> NoteSpan:
    with fields.located():
        span = NoteSpan(fields.take("note"), fields.take("start"), fields.take("end"))
    fields.refuse_rest()
    return span

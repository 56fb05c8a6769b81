"""A trajectory as a person reads it: a header, then who said what.

Everything is built as styled lines first, so that a terminal and a pipe show the same words.
What comes from the trajectory is indented and made visible: no text of an agent can pass for
a heading of ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

import numpy as np

from recollect.cli.output import decimal, size
from recollect.cli.untrusted import visible, visible_lines
from recollect.ledger import Mark
from recollect.store.records import Row
from recollect.trajectory import Trajectory
from recollect.types import Segment, SegmentKind, Task, ToolCall

STYLES = {
    SegmentKind.SYSTEM: "bright_black",
    SegmentKind.USER: "green",
    SegmentKind.NOTE: "magenta",
    SegmentKind.ASSISTANT: "cyan",
    SegmentKind.TOOL: "yellow",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line to show, with the style it has on a terminal."""

    text: str
    style: str = ""


def header(
    trajectory: Trajectory, row: Row, task: Task, age: int | None, marks: Sequence[Mark]
) -> Iterator[Line]:
    """Tell what is known about the attempt as a whole."""
    yield Line(f"trajectory {trajectory.id}", "bold")
    for name, text in _facts(trajectory, row, task, age):
        yield Line(f"{name:<10} {visible(text)}")
    for name, lines in (
        ("notes", [f"{n.note} at tokens {n.start}..{n.end}" for n in trajectory.notes]),
        ("marks", [_mark(mark) for mark in marks]),
        ("extra", [f"{key}: {json.dumps(value)}" for key, value in trajectory.extra.items()]),
    ):
        for number, text in enumerate(lines):
            yield Line(f"{'' if number else name:<10} {visible(text)}")


def _facts(
    trajectory: Trajectory, row: Row, task: Task, age: int | None
) -> Iterator[tuple[str, str]]:
    yield "task", f"{task.id} of {task.environment} (split {task.split}, level {task.level})"
    yield "", f"domain {task.domain}, key {task.key}"
    if task.query:
        yield "query", task.query
    yield "reward", _reward(trajectory)
    policy = "no policy sampled it"
    if trajectory.policy_version is not None:
        policy = f"policy version {trajectory.policy_version}, age {decimal(age)}"
    yield "origin", f"{trajectory.origin.value}, {policy}"
    yield "run", f"{trajectory.run}, step {trajectory.step}, group {trajectory.group}"
    yield "tokens", f"{trajectory.tokens.size:,}, of them {trajectory.sampled_count:,} sampled"
    if trajectory.logprobs is not None:
        means = (trajectory.mean_logprob, trajectory.mean_entropy)
        yield "", "mean log-prob {}, mean entropy {}".format(*map(decimal, means))
    if (sampling := trajectory.sampling) is not None:
        limits = [f"top_p {sampling.top_p:g}"] if sampling.top_p < 1 else []
        limits += [f"top_k {sampling.top_k}"] if sampling.top_k else []
        yield "sampling", ", ".join([f"temperature {sampling.temperature:g}", *limits])
    yield "ended", _ended(trajectory)
    last = f", last at step {row.last_use}" if row.last_use is not None else ""
    yield "uses", f"{row.uses}{last}"
    if row.advantage is not None and row.priority is not None:
        yield "score", f"advantage {decimal(row.advantage)}, priority {decimal(row.priority)}"
    yield "status", f"{row.status.value}{', pinned' if row.pinned else ''}"
    yield "stored", f"{_when(row.created)}, {size(row.bytes)}"
    versions = f"environment {trajectory.environment_version}, reward {trajectory.reward_version}"
    yield "versions", f"{versions}, tokenizer {trajectory.tokenizer or '-'}"


def _reward(trajectory: Trajectory) -> str:
    reward = trajectory.reward
    parts = ", ".join(f"{name} {part:g}" for name, part in reward.parts.items())
    success = "success" if trajectory.success else "failure"
    return f"{reward.value:g}{f' ({parts})' if parts else ''}, {success}"


def _ended(trajectory: Trajectory) -> str:
    if trajectory.finished <= 0:
        return trajectory.stop.value
    seconds = trajectory.finished - trajectory.started
    return f"{trajectory.stop.value}, {_when(trajectory.finished)}, after {seconds:.1f} s"


def _mark(mark: Mark) -> str:
    who = f"run {mark.run}, step {mark.step}" if mark.run is not None else "by hand"
    return f"{mark.action.value} ({who}){': ' + mark.reason if mark.reason else ''}"


def _when(seconds: float) -> str:
    try:
        moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    except (OverflowError, OSError, ValueError):
        return f"at {seconds:g} s"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def conversation(trajectory: Trajectory, logprobs: bool, per_line: int) -> Iterator[Line]:
    """Tell who said what; with the sampled tokens, `per_line` of them beside each other."""
    for segment in trajectory.segments:
        style = STYLES[segment.kind]
        yield Line("")
        yield Line(_heading(trajectory, segment), f"bold {style}")
        yield from _body(segment, style)
        if logprobs:
            yield from _tokens(trajectory, segment, per_line)


def _heading(trajectory: Trajectory, segment: Segment) -> str:
    name = f" {segment.name}" if segment.name else ""
    call = f" (answers {segment.call_id})" if segment.call_id else ""
    span = f"tokens {segment.start}..{segment.end}"
    sampled = int(np.count_nonzero(trajectory.sampled[segment.start : segment.end]))
    if segment.start == segment.end:
        span = "no tokens"
    elif sampled:
        span += f", {sampled} sampled"
    return visible(f"{segment.kind.value}{name}{call}  [{span}]")


def _body(segment: Segment, style: str) -> Iterator[Line]:
    if segment.text:
        yield from (Line(f"  {line}", style) for line in visible_lines(segment.text))
    for call in segment.calls:
        yield from (Line(f"  {line}", f"bold {style}") for line in _call(call))
    if not segment.text and not segment.calls:
        yield Line("  (no text recorded)", "dim")


def _call(call: ToolCall) -> Iterator[str]:
    named = f" as {call.id}" if call.id else ""
    yield visible(f"call {call.name}{named}")
    try:
        arguments = json.dumps(json.loads(call.arguments), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        arguments = call.arguments  # an agent may write anything: show what it wrote
    yield from (f"  {line}" for line in visible_lines(arguments))


_TOKEN = "{:>7} {:>7} {:>9} {:>8}"
TOKEN_WIDTH = 34


def _tokens(trajectory: Trajectory, segment: Segment, per_line: int) -> Iterator[Line]:
    """List position, id, log-prob and entropy of the segment's sampled tokens."""
    positions = np.flatnonzero(trajectory.sampled[segment.start : segment.end]) + segment.start
    if positions.size == 0:
        return
    first = int(np.count_nonzero(trajectory.sampled[: segment.start]))
    cells = []
    for number, position in enumerate(positions.tolist(), start=first):
        measures = (trajectory.logprobs, trajectory.entropies)
        numbers = ("-" if m is None else f"{float(m[number]):.4f}" for m in measures)
        cells.append(_TOKEN.format(position, int(trajectory.tokens[position]), *numbers))
    title = _TOKEN.format("token", "id", "log-prob", "entropy")
    width = min(per_line, len(cells))
    yield Line("  " + "  ".join([title] * width), "dim bold")
    for start in range(0, len(cells), width):
        yield Line("  " + "  ".join(cells[start : start + width]), "dim")


def segment_table(trajectory: Trajectory) -> Iterable[tuple[str, ...]]:
    """List the segments without their text: number, kind, span, tokens, sampled, characters."""
    for number, segment in enumerate(trajectory.segments):
        sampled = np.count_nonzero(trajectory.sampled[segment.start : segment.end])
        yield (
            *(str(number), segment.kind.value, segment.name or "-"),
            *(str(segment.start), str(segment.end), str(int(sampled))),
            *(str(len(segment.text)), str(len(segment.calls))),
        )

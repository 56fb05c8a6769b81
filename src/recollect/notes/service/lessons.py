"""Lessons from conversations that were sent as text, by the rules that a run uses on its own.

Attempts of one task are told by its key, or by the same messages before the first answer. Of each
task the best attempt is written down as a worked example, headed by what the worst did instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recollect.canonical import Json, canonical_json, is_plain_json
from recollect.errors import BadRequest, InvalidRecord
from recollect.notes.note import Draft, NoteKind
from recollect.notes.service.asked import Asked
from recollect.notes.wording import example, first_difference
from recollect.types import TaskKey
from recollect.validation import check_id

MOST_TRAJECTORIES = 10_000
_MOST_MESSAGES = 10_000
_MOST_WHEN = 2000  # characters; more of a request do not find better


@dataclass(frozen=True, slots=True)
class Told:
    """One attempt as it was sent: its opening, what the agent said turn by turn, its score."""

    opening: str  # everything before the first answer, spelt out
    request: str
    turns: tuple[str, ...]
    score: float
    task: str = ""  # key of the task, where the sender knows it


def read_attempts(asked: Asked) -> list[Told]:
    """Read the trajectories of a request; BadRequest says which one is wrong."""
    found = asked.items("trajectories", MOST_TRAJECTORIES)
    return [_attempt(f"trajectories[{number}]", each) for number, each in enumerate(found)]


def lessons(attempts: Sequence[Told], threshold: float, trust: float, author: str) -> list[Draft]:
    """Write the lessons of attempts, one for each task that somebody solved, in order.

    An attempt is a success from `threshold` on. Failures alone prove nothing and are passed over.
    """
    groups: dict[str, list[Told]] = {}
    for attempt in attempts:
        groups.setdefault(attempt.task or attempt.opening, []).append(attempt)
    drafts = []
    for group in groups.values():
        good = [each for each in group if each.score >= threshold and each.turns]
        bad = [each for each in group if each.score < threshold]
        if not good:
            continue
        best = min(good, key=lambda each: (-each.score, len(each.turns), each.turns))
        worst = min(bad, key=lambda each: (each.score, len(each.turns), each.turns), default=None)
        wrong = first_difference(worst.turns, best.turns) if worst is not None else ""
        drafts.append(
            Draft(
                content=example(best.request, best.turns, wrong),
                when_to_use=best.request[:_MOST_WHEN],
                kind=NoteKind.SUCCESS if worst is None else NoteKind.COMPARISON,
                author=author,
                trust=trust,
                tasks=tuple(sorted({TaskKey(each.task) for each in group if each.task})),
            )
        )
    return drafts


def _attempt(where: str, sent: Json) -> Told:
    if not isinstance(sent, dict) or not is_plain_json(sent):
        raise BadRequest(where, "must be a JSON object of texts and finite numbers")
    asked = Asked(sent)
    try:
        messages = asked.items("messages", _MOST_MESSAGES)
        score = asked.number("score")
    except BadRequest as error:
        raise BadRequest(f"{where}.{error.member}", _why(error)) from error
    opening: list[Json] = []
    turns: list[str] = []
    request = ""
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRequest(f"{where}.messages[{number}]", "must be an object with a role")
        if message["role"] == "assistant":
            turns.append(_said(message))
        elif not turns:
            opening.append({"role": message["role"], "content": message.get("content")})
            request = _said(message) if message["role"] == "user" else request
    said = tuple(turn for turn in turns if turn.strip())
    return Told(canonical_json(opening), request, said, score, _task(where, sent))


def _task(where: str, sent: Mapping[str, Json]) -> str:
    """Read which task it was, so that nobody who is evaluated on it learns from it."""
    metadata = sent.get("metadata")
    found = metadata.get("task", "") if isinstance(metadata, dict) else ""
    try:
        if found != "":
            check_id("metadata.task", found)  # type: ignore[arg-type]
    except InvalidRecord as error:
        raise BadRequest(f"{where}.metadata.task", error.problem) from error
    return str(found)


def _said(message: Mapping[str, Json]) -> str:
    """Give what a message says: its text, or the tools it calls."""
    content = message.get("content")
    if isinstance(content, str) and content.strip():
        return content
    if isinstance(content, list):  # parts, as some clients spell them
        texts = [p.get("text") for p in content if isinstance(p, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))
    calls = message.get("tool_calls")
    return canonical_json(calls) if isinstance(calls, list) and calls else ""


def _why(error: BadRequest) -> str:
    return error.what.removeprefix(f"{error.member}: ").removesuffix(".")

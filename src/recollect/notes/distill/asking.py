"""Asking a language model for a note: the prompt, and reading the answer."""

from __future__ import annotations

import json

from recollect.canonical import strict_json
from recollect.notes.distill.study import Study, turns_of
from recollect.notes.distill.writer import Question, WritingFailed
from recollect.notes.note import Draft, NoteKind
from recollect.trajectory import Trajectory

_MOST_CHARS = 4000  # of an attempt in a prompt
_MOST_CONTENT = 2000
_TASK = {
    NoteKind.COMPARISON: "One attempt at this task succeeded and one failed. What made the "
    "difference, and what should be done next time?",
    NoteKind.SUCCESS: "This attempt at the task succeeded. What should be done again next time?",
    NoteKind.FAILURE: "This attempt at the task failed. What should be avoided next time?",
}
_FORM = (
    'Answer with JSON only: {"when_to_use": "...", "content": "..."}. when_to_use says in one '
    "sentence for which requests the lesson holds; content is the lesson, at most five sentences, "
    "with the exact form of any tool call it recommends."
)


def prompt_for(study: Study) -> str:
    """Put a study as a question."""
    parts = [f"Task: {study.request}"]
    if study.best is not None:
        parts.append(f"Successful attempt:\n{_told(study.best)}")
    if study.worst is not None:
        parts.append(f"Failed attempt:\n{_told(study.worst)}")
    return "\n\n".join([*parts, _TASK[study.kind], _FORM])


def draft_from(question: Question, answer: str, author: str) -> Draft:
    """Read an answer: the JSON in it, or all of it where there is none."""
    content, when = answer.strip(), question.study.request
    found = _json_in(answer)
    if found is not None:
        said, hint = found.get("content"), found.get("when_to_use")
        if not isinstance(said, str):
            raise WritingFailed("the answer's content is not a text", retry=True)
        content = said.strip()
        when = f"{hint.strip()}\n{when}" if isinstance(hint, str) else when
    if not content or len(content) > _MOST_CONTENT:
        raise WritingFailed(f"the answer has {len(content):,} characters", retry=True)
    if content in [turn.strip() for row in question.study.rows for turn in turns_of(row)]:
        raise WritingFailed("the answer only repeats an attempt", retry=True)
    return question.draft(content, when, author)


def _json_in(answer: str) -> dict[str, object] | None:
    start, end = answer.find("{"), answer.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        found = strict_json(answer[start : end + 1])
    except (ValueError, json.JSONDecodeError):
        return None
    return dict(found) if isinstance(found, dict) and "content" in found else None


def _told(row: Trajectory) -> str:
    """Write an attempt as a conversation; notes in its prompt are not passed on."""
    lines = [
        f"{segment.kind.value}: {segment.text.strip()}"
        for segment in row.segments
        if segment.kind.value in ("assistant", "tool") and segment.text.strip()
    ]
    text = "\n".join(lines)
    return text if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + "..."
